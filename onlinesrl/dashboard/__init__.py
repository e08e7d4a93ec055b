"""A page that shows runs while they are going: a process of its own, which only reads run folders."""
