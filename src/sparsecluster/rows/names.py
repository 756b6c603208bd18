"""Names to choose from; see parameters."""

from sparsecluster.rows.parameters import check_name as check_name
