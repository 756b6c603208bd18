"""Tables of the papers behind this package, reproduced: the paper's figure beside ours."""
