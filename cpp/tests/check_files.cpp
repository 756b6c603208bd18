// Rows that are read from files, chunk by chunk: the same as in memory, and damage is found.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/checksum.hpp"
#include "core/column_stats.hpp"
#include "core/exact.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/sums.hpp"
#include "tests/check.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kHeader = 128;

// A file with these elements behind a header, that is gone when it is closed.
template <class T>
class ScratchFile {
public:
    explicit ScratchFile(const std::vector<T>& elements) {
        char path[] = "/tmp/sparsecluster-check-XXXXXX";
        descriptor_ = mkstemp(path);
        unlink(path);
        const std::vector<char> header(kHeader, 'h');
        const size_t size = elements.size() * sizeof(T);
        check(write(descriptor_, header.data(), kHeader) == kHeader &&
                  write(descriptor_, elements.data(), size) == ssize_t(size),
              "a file cannot be written");
        fsync(descriptor_);
    }
    ~ScratchFile() { ::close(descriptor_); }
    int descriptor() const { return descriptor_; }

private:
    int descriptor_ = -1;
};

// Rows of very different lengths, in arrays and in files.
class FiledRows {
public:
    explicit FiledRows(int64_t n_rows) {
        indptr_.push_back(0);
        for (int64_t i = 0; i < n_rows; ++i) {
            for (int64_t f = i % 3; f < (i % 7 == 0 ? 900 : i % 11); f += 2) {
                features_.push_back(int32_t(f));
                values_.push_back(float((i * 31 + f * 17) % 101) - 50);
            }
            indptr_.push_back(int64_t(features_.size()));
        }
        for (int64_t end = n_rows / 3;; end = std::min(n_rows, end + n_rows / 3 + 1)) {
            add_block(end);
            if (end == n_rows) break;
        }
        features_file_ = std::make_unique<ScratchFile<int32_t>>(features_);
        values_file_ = std::make_unique<ScratchFile<float>>(values_);
    }

    Rows rows(int64_t chunk_bytes, bool from_files) const {
        const Matrix<float, int32_t> view{int64_t(indptr_.size()) - 1, 900, indptr_.data(), features_.data(),
                                          values_.data()};
        Rows rows(view, chunk_bytes);
        if (from_files)
            rows.read_from(std::make_shared<EntryFiles>(
                std::array<int, 2>{features_file_->descriptor(), values_file_->descriptor()},
                std::array<int64_t, 2>{kHeader, kHeader}, blocks_));
        return rows;
    }
    void damage_value(int64_t entry) const {
        const float other = values_[entry] + 1;
        check(pwrite(values_file_->descriptor(), &other, sizeof(other), kHeader + entry * int64_t(sizeof(other))) ==
                  ssize_t(sizeof(other)),
              "a file cannot be changed");
    }
    void cut_off() const { check(ftruncate(features_file_->descriptor(), kHeader + 100) == 0, "a file cannot be cut"); }
    int64_t n_entries() const { return int64_t(values_.size()); }

private:
    void add_block(int64_t end) {
        const int64_t begin = blocks_.empty() ? 0 : blocks_.back().end_row;
        const int64_t first = indptr_[begin], n = indptr_[end] - first;
        blocks_.push_back({end,
                           {crc32(reinterpret_cast<const char*>(features_.data() + first), n * 4),
                            crc32(reinterpret_cast<const char*>(values_.data() + first), n * 4)}});
    }

    std::vector<int64_t> indptr_;
    std::vector<int32_t> features_;
    std::vector<float> values_;
    std::vector<StoredBlock> blocks_;
    std::unique_ptr<ScratchFile<int32_t>> features_file_;
    std::unique_ptr<ScratchFile<float>> values_file_;
};

void check_passes(const FiledRows& filed, int64_t chunk_bytes) {
    Rows plain = filed.rows(0, false), streamed = filed.rows(chunk_bytes, true);
    check(plain.inspect(2).fault == Fault::none && streamed.inspect(2).fault == Fault::none, "rows have a fault");
    check(std::ranges::equal(plain.norm2(), streamed.norm2()), "norms from files are others");
    const ColumnStats one = column_stats(plain, nullptr), two = column_stats(streamed, nullptr);
    check(one.mean == two.mean && one.scatter == two.scatter && one.count == two.count, "columns are others");
    // A pass that ends early, and one that leaves out some chunks, before one through all rows.
    const int64_t n = plain.n_rows();
    try {
        streamed.in_chunks(n, [](const auto&, int64_t, int64_t) { throw 1; });
    } catch (int) {
    }
    int64_t n_seen = 0;
    auto count = [&](const auto& view, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const auto row = view.row(i);
            bool equal = true;
            std::visit(
                [&](const auto& all) {
                    const auto expected = all.row(i);
                    for (int64_t e = 0; e < row.size; ++e)
                        equal &= row.features[e] == expected.features[e] && row.values[e] == expected.values[e];
                },
                plain.matrix());
            n_seen += equal;
        }
    };
    streamed.in_chunks(n - n / 5, count);
    check(n_seen == n - n / 5, "the first rows are not as in memory");
    n_seen = 0;
    streamed.in_chunks(n, count, [](int64_t begin, int64_t) { return begin % 2 == 0; });
    check(n_seen == n, "rows are not as in memory");
}

// An update after an assignment that it followed moves the centers as ever. Where that passed through all rows, it reads
// nothing: the files are cut off by then.
void check_following(const Algorithm& algorithm) {
    context = std::string("files, followed, ") + algorithm.name;
    const FiledRows filed(400);
    Rows plain = filed.rows(0, false), streamed = filed.rows(5000, true);
    check(plain.inspect(1).fault == Fault::none && streamed.inspect(2).fault == Fault::none, "rows have a fault");
    const ColumnStats columns = column_stats(plain, nullptr);
    const int64_t n = plain.n_rows(), k = 5;
    Centers centers;
    centers.n_features = plain.n_features();
    std::visit(
        [&](const auto& all) {
            for (int64_t c = 0; c < k; ++c) {
                Center center;
                const auto row = all.row(7 * c + 1);
                for (int64_t e = 0; e < row.size; ++e)
                    center.features.push_back(int32_t(row.features[e])), center.values.push_back(double(row.values[e]));
                center.compute_norm();
                centers.items.push_back(std::move(center));
            }
        },
        plain.matrix());
    Centers followed = centers;
    Sums sums(plain, columns, nullptr, k, Metric::euclidean), following(streamed, columns, nullptr, k, Metric::euclidean);
    const AssignOptions options{2};
    const auto assigner = algorithm.make(plain, options), other = algorithm.make(streamed, options);
    std::vector<int32_t> labels(n, -1), same(n, -1);
    std::vector<double> shift;
    for (int iteration = 0; iteration < 3; ++iteration) {
        assigner->assign(centers, shift, labels.data(), n);
        {
            const auto follower = following.follow(same.data(), n, 2);
            check(follower != nullptr, "streamed rows are not followed");
            other->assign(followed, shift, same.data(), n);
        }
        // A label that changes afterwards is read again; where none does, nothing is.
        if (iteration == 1) labels[3] = same[3] = (labels[3] + 1) % int32_t(k);
        if (iteration == 2 && &algorithm == &kLloyd) filed.cut_off();
        const UpdateStats expected = sums.update(labels.data(), n, centers, 1);
        const UpdateStats found = following.update(same.data(), n, followed, 2);
        check(labels == same && expected.moved == found.moved && expected.shift == found.shift && expected.cost == found.cost,
              "an update is another one where it followed the assignment");
        for (int64_t c = 0; c < k; ++c)
            check(centers.items[c].features == followed.items[c].features && centers.items[c].values == followed.items[c].values,
                  "centers are others where the update followed the assignment");
        shift = expected.shift;
        assigner->forget(3), other->forget(3);
    }
}

}  // namespace

void check_files() {
    context = "files";
    check(crc32("123456789", 9) == 0xCBF43926u, "the checksum is not that of zlib");
    check(crc32("456789", 6, crc32("123", 3)) == 0xCBF43926u, "checksums cannot be continued");
    for (int64_t n_rows : {1, 5, 400}) {
        const FiledRows filed(n_rows);
        for (int64_t chunk_bytes : {1, 5000, 1 << 24}) check_passes(filed, chunk_bytes);
    }
    for (const Algorithm* algorithm : kAlgorithms) check_following(*algorithm);
    context = "files";
    const FiledRows filed(400);
    filed.damage_value(filed.n_entries() - 1);
    const Finding finding = filed.rows(5000, true).inspect(3);
    check(finding.fault == Fault::values_checksum && finding.row > 0, "a damaged block is not found");
    filed.cut_off();
    bool refused = false;
    try {
        filed.rows(5000, true).inspect(3);
    } catch (const ReadFailure&) {
        refused = true;
    }
    check(refused, "a file that was cut off is read");
}

}  // namespace sparsecluster
