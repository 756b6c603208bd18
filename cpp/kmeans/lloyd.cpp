// Lloyd: every row against every center, each time.
#include <atomic>

#include "index/scan.hpp"
#include "kmeans/assign.hpp"

namespace sparsecluster {

namespace {

class Lloyd final : public Assigner {
public:
    using Assigner::Assigner;

    AssignStats assign_rows(const Centers& centers, const std::vector<double>&, int32_t* labels) override {
        CenterIndex& index = index_;
        index.build(centers, scale_, limits(), options_.n_threads);
        std::atomic<int64_t> moved{0};
        scan(rows_, index, nullptr, n_rows_, options_.n_threads, scratches_,
             [&](const Scanned& scanned, const auto& row, int thread) {
                 const int32_t label = decide(scanned, row, rows_.norm2()[scanned.row], centers, index.norm,
                                              scratches_[thread].candidates);
                 if (labels[scanned.row] == label) return;
                 labels[scanned.row] = label;
                 moved.fetch_add(1, std::memory_order_relaxed);
             });
        return {moved, n_rows_ * centers.size()};
    }

private:
    CenterIndex index_;
    std::vector<ScanScratch> scratches_;
};

}  // namespace

const Algorithm kLloyd = {
    "lloyd", make_assigner<Lloyd>, [](int64_t, int64_t) { return int64_t(0); }};

}  // namespace sparsecluster
