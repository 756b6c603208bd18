// Direct reads, and the threads that are ahead.
#include "core/entry_files.hpp"

#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kPage = 4096;  // direct reads begin and end at pages, in the file and in memory

// Memory is short where rows are read from files: what threads freed among what they keep goes back to the system.
void give_memory_back() {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

ReadFailure unreadable(const std::string& why) {
    return ReadFailure("A file of the store cannot be read: " + why + ".");
}

}  // namespace

DirectFile::DirectFile(int descriptor, int64_t begin) : begin_(begin) {
    plain_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (plain_ < 0) throw unreadable(std::strerror(errno));
#ifdef O_DIRECT
    direct_ = open(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
#endif
}

DirectFile::~DirectFile() {
    close(plain_);
    if (direct_ >= 0) close(direct_);
}

const char* DirectFile::read(int64_t begin, int64_t end, HugeBuffer<char>& buffer) {
    begin += begin_, end += begin_;
    const int64_t first = begin / kPage * kPage, last = (end + kPage - 1) / kPage * kPage;
    buffer.reserve(std::max(last - first, kHugePage));  // from which on it is aligned to pages
    bool direct = direct_ >= 0;
    int64_t at = first;
    while (at < end) {
        const ssize_t n = pread(direct ? direct_.load() : plain_, buffer.get() + (at - first), size_t(last - at), at);
        if (n > 0) {
            at += n;
        } else if (n == 0) {
            throw unreadable("it ends early");
        } else if (direct && errno == EINVAL) {
            direct = false;  // the end of a file that is no page's, or a file system that is particular
        } else if (errno != EINTR) {
            throw unreadable(std::strerror(errno));
        }
    }
#ifdef POSIX_FADV_DONTNEED
    // Else what is read once would drive out what is needed.
    if (!direct) (void)posix_fadvise(plain_, first, last - first, POSIX_FADV_DONTNEED);
#endif
    return buffer.get() + (begin - first);
}

std::unique_ptr<std::array<EntryFiles::Buffers, 2>> EntryFiles::take_buffers() {
    std::unique_ptr<std::array<Buffers, 2>> spare(spare_.exchange(nullptr));
    return spare ? std::move(spare) : std::make_unique<std::array<Buffers, 2>>();
}

void EntryFiles::give_back(std::unique_ptr<std::array<Buffers, 2>> buffers) {
    delete spare_.exchange(buffers.release());
}

// Each file has a thread, so that the disk has two requests at a time. `n_read` counts the pieces that are in memory or
// have been, `n_done` those whose buffer is free again.
struct PieceReader::Shared {
    struct Progress {
        std::atomic<uint32_t> n_read{0};
        std::atomic<uint32_t> failed{UINT32_MAX};  // the piece that cannot be read
        std::exception_ptr error;
    };
    std::shared_ptr<EntryFiles> files;
    std::vector<EntryFiles::Ranges> ranges;
    std::unique_ptr<std::array<EntryFiles::Buffers, 2>> buffers;
    std::array<EntryFiles::Pieces, 2> pieces;
    std::array<Progress, 2> of_file;
    std::atomic<uint32_t> n_done{0};
    std::atomic<bool> stop{false};

    ~Shared() { files->give_back(std::move(buffers)); }
    void read(uint32_t piece, size_t file) {
        pieces[piece % 2][file] = files->read(file, ranges[piece][file], (*buffers)[piece % 2][file]);
    }
};

PieceReader::PieceReader(std::shared_ptr<EntryFiles> files, std::vector<EntryFiles::Ranges> ranges)
    : shared_(std::make_shared<Shared>()), n_forks_before_(n_forks) {
    shared_->buffers = files->take_buffers();
    shared_->files = std::move(files);
    shared_->ranges = std::move(ranges);
    for (size_t file = 0; file < 2; ++file)
        alone_[file] = shared_->ranges.size() < 2 || !run_beside([shared = shared_, file] { read_ahead(shared, file); });
}

PieceReader::~PieceReader() {
    shared_->stop = true;
    shared_->n_done.fetch_add(2);
    shared_->n_done.notify_all();
    give_memory_back();
}

void PieceReader::read_ahead(const std::shared_ptr<Shared>& shared, size_t file) {
    Shared::Progress& progress = shared->of_file[file];
    for (uint32_t piece = 0; piece < shared->ranges.size(); ++piece) {
        // One piece is in use, one is read.
        for (uint32_t done; piece - (done = shared->n_done.load(std::memory_order_acquire)) == 2;)
            wait_while(shared->n_done, done);
        if (shared->stop) return;
        try {
            shared->read(piece, file);
        } catch (...) {
            progress.error = std::current_exception();
            progress.failed = piece;
        }
        progress.n_read.store(piece + 1, std::memory_order_release);
        progress.n_read.notify_one();
        if (progress.failed == piece) return;
    }
}

EntryFiles::Pieces PieceReader::next() {
    Shared& shared = *shared_;
    constexpr uint32_t kNowAndThen = 16;
    const uint32_t piece = n_taken_++;
    if (piece % kNowAndThen == kNowAndThen - 1) give_memory_back();
    if (piece > 0) {
        shared.n_done.store(piece, std::memory_order_release);
        shared.n_done.notify_all();
    }
    for (size_t file = 0; file < 2; ++file) {
        Shared::Progress& progress = shared.of_file[file];
        if (alone_[file]) {
            shared.read(piece, file);
            continue;
        }
        for (uint32_t n_read; (n_read = progress.n_read.load(std::memory_order_acquire)) <= piece;) {
            if (n_forks != n_forks_before_) throw Forked();
            wait_while(progress.n_read, n_read);
        }
        if (progress.failed == piece) std::rethrow_exception(progress.error);
    }
    poll_interrupt();
    return shared.pieces[piece % 2];
}

}  // namespace sparsecluster
