"""The error messages of examples that cannot be ground or have an impossible truth."""

from __future__ import annotations

from onlinesrl.core.example import show_ground_atom
from onlinesrl.logic.text import quote
from onlinesrl.mln.ground.batch_packer import Packer
from onlinesrl.mln.kernels import grounding_frames
from onlinesrl.mln.kernels.weight_magnitude import HIGHEST

KINDS = {
    grounding_frames.TRUTH_NOT_OPEN: "not_open",
    grounding_frames.TRUTH_BREAKS_GROUP: "hard_rule",
    grounding_frames.TRUTH_BREAKS_RULE: "hard_rule",
    grounding_frames.EVIDENCE_BREAKS_RULE: "hard_rule",
    grounding_frames.TOO_MANY_ATOMS: "limit",
    grounding_frames.TOO_MANY_GROUNDINGS: "limit",
    grounding_frames.WEIGHTS_OVERFLOW: "overflow",
}
"""The kind of ExampleError of each status."""


class Reasons:
    """The error messages by status; ``most_atoms`` and ``most_groundings`` are the limits."""

    def __init__(self, packer: Packer, most_atoms: int, most_groundings: int):
        self.packer = packer
        self.layout = packer.layout
        self.clauses = [plan.clause for plan in packer.layout.plan.clauses]
        self.most_atoms = most_atoms
        self.most_groundings = most_groundings

    def of(self, batch: grounding_frames.Batch, w: int, status: int, detail: int) -> str:
        """Return the message of a bad example; ``detail`` is the kernel's detail of the status."""
        if status == grounding_frames.TRUTH_NOT_OPEN:
            return self._not_open(batch, w, detail)
        if status == grounding_frames.TRUTH_BREAKS_GROUP:
            groups = sorted(g.show(q) for q, g in self.layout.plan.groups.items())
            return f"the truth breaks {' or '.join(groups)}"
        if status == grounding_frames.TOO_MANY_ATOMS:
            return f"more query atoms than {self.packer.keys.atoms} ({self.most_atoms})"
        clause = self.clauses[detail]
        line = self.layout.plan.program.rules[clause.rule].position.line
        if status == grounding_frames.TOO_MANY_GROUNDINGS:
            keys, most = self.packer.keys, self.most_groundings
            long = (
                f", where {grounding_frames.LITERALS_EACH} more literals count as one more clause"
            )
            return (
                f"more ground clauses than {keys.groundings} ({most}), reached in the rule {clause.text} "
                f"(line {line}){long if clause.exists else ''}; {keys.advice} a condition that evidence "
                f"decides to the rule, or a hard rule that decides atoms; or raise {keys.groundings}"
            )
        if status == grounding_frames.WEIGHTS_OVERFLOW:
            return (
                f"the weights of the ground clauses add up to more than {HIGHEST:g}; the largest one is "
                f"in the rule {clause.text} (line {line}): expected smaller weights and numbers, or a hard "
                "rule, which ends in a period"
            )
        part = "truth" if status == grounding_frames.TRUTH_BREAKS_RULE else "evidence"
        return f"the {part} breaks the hard rule {clause.text}"

    def _not_open(self, batch: grounding_frames.Batch, w: int, detail: int) -> str:
        slot, row = detail >> 32, detail & 0xFFFFFFFF
        name = self.layout.slot_predicates()[slot]
        named = self.packer.truth_constants(batch, slot, w, row)
        atom = show_ground_atom(name, [constant for constant, _ in named])
        unlabelled = slot in self.layout.unlabelled.values()
        part = "unlabelled" if unlabelled else "truth"
        reason = f"{part} atom {atom} is not an open atom of the example: "
        unknown = [(constant, kind) for constant, kind in named if kind is not None]
        listed = batch.listed[w] == grounding_frames.LISTED
        if not unknown or listed:
            return (
                reason
                + ("it is not in the example's `query`, or " if listed else "")
                + ("evidence fixes it" if unlabelled else "evidence makes it false")
            )
        constant, kind = unknown[0]
        return reason + (
            f"only the {part} names the {kind} {constant}; declare it in the model, `{kind} = "
            f"{{{quote(str(constant))}, ...}}` (`...`: and constants of the stream), name it in the "
            "evidence, or list the atoms to predict in `query`"
        )
