from .density.dbscan import DBSCAN
from .density.hdbscan import HDBSCAN
from .distances.pairwise import pairwise
from .embedding.dimensions import Dimensions, dimensions
from .embedding.laplacian import LaplacianScore
from .embedding.random_signs import RandomSigns
from .embedding.reduce import reduce
from .embedding.selection import LeverageSelection
from .embedding.sparse_embedding import SparseEmbedding
from .embedding.sparsification import Sparsification
from .embedding.sparsified import SparsifiedKMeans
from .evaluation.agreement import (
    adjusted_rand,
    clustering_accuracy,
    normalized_mutual_info,
    purity,
)
from .evaluation.choice import Choice, ChoiceRecord
from .evaluation.choose_k import choose_k
from .evaluation.evaluate import Agreement, ClusterQuality, Evaluation, evaluate
from .evaluation.scores import calinski_harabasz, clustering_cost, davies_bouldin
from .evaluation.silhouette import silhouette, simplified_silhouette
from .evaluation.stability import stability
from .formats.text import TextOptions
from .hierarchy.agglomerative import AgglomerativeClustering
from .hierarchy.newick import read_newick
from .kmeans.kmeans import KMeans
from .kmeans.minibatch import MiniBatchKMeans
from .kmeans.planning import plan_fit
from .kmeans.projection import project_l1
from .kmeans.seeding.seed_centers import kmeans_plusplus, seed_centers
from .kmeans.spherical import SphericalKMeans
from .neighbors.graphs import knn_graph, radius_graph
from .neighbors.k_distances import k_distances, plot_k_distances, suggest_eps
from .neighbors.spanning_tree import SpanningTree, minimum_spanning_tree
from .prepare.convert import convert
from .prepare.join import join_labels
from .prepare.metalabels import metalabels
from .prepare.prepare import Prepare
from .prepare.read import read, read_blocks
from .report.report import Report, make_report
from .rows.errors import ReadError, SparseClusterError
from .rows.rows import Rows
from .run.history import AssignmentRecord, IterationRecord, SeedingRecord
from .run.plan import IterationCost, Plan
from .storage.checkpoint import CheckpointError
from .storage.model import ModelFileError, load_model
from .storage.store import StoreError, open_store
from .tree.bisecting import BisectingKMeans
from .tree.cluster_tree import ClusterTree
from .version import __version__

__all__ = [
    "DBSCAN",
    "HDBSCAN",
    "AgglomerativeClustering",
    "Agreement",
    "AssignmentRecord",
    "BisectingKMeans",
    "CheckpointError",
    "Choice",
    "ChoiceRecord",
    "ClusterQuality",
    "ClusterTree",
    "Dimensions",
    "Evaluation",
    "IterationCost",
    "IterationRecord",
    "KMeans",
    "LaplacianScore",
    "LeverageSelection",
    "MiniBatchKMeans",
    "ModelFileError",
    "Plan",
    "Prepare",
    "RandomSigns",
    "ReadError",
    "Report",
    "Rows",
    "SeedingRecord",
    "SpanningTree",
    "SparseClusterError",
    "SparseEmbedding",
    "Sparsification",
    "SparsifiedKMeans",
    "SphericalKMeans",
    "StoreError",
    "TextOptions",
    "__version__",
    "adjusted_rand",
    "calinski_harabasz",
    "choose_k",
    "clustering_accuracy",
    "clustering_cost",
    "convert",
    "davies_bouldin",
    "dimensions",
    "evaluate",
    "join_labels",
    "k_distances",
    "kmeans_plusplus",
    "knn_graph",
    "load_model",
    "make_report",
    "metalabels",
    "minimum_spanning_tree",
    "normalized_mutual_info",
    "open_store",
    "pairwise",
    "plan_fit",
    "plot_k_distances",
    "project_l1",
    "purity",
    "radius_graph",
    "read",
    "read_blocks",
    "read_newick",
    "reduce",
    "seed_centers",
    "silhouette",
    "simplified_silhouette",
    "stability",
    "suggest_eps",
]
