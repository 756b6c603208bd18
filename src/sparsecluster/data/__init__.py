"""Where rows come from: matrices in memory, checked once and seen as blocks of CSR rows."""
