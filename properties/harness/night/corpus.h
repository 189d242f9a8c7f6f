// The inputs that a night's fuzzing keeps: of each target one folder that the merges make, and one for each
// job's new ones. Every change leaves, at whatever moment it is cut off, a corpus that the next start finds
// whole.
#ifndef ATTEST_HARNESS_NIGHT_CORPUS_H_
#define ATTEST_HARNESS_NIGHT_CORPUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace attest {

class Corpus {
 public:
  // One target's, within `folder`, which is made. Mends what a run left that was cut off. The error is one
  // line.
  static tl::expected<Corpus, std::string> Open(const std::string& folder, int jobs);

  std::string shared() const { return folder_ + "/shared"; }
  std::string job(int index) const { return folder_ + "/job-" + std::to_string(index); }
  // Where a merge writes; empty, and not yet part of the corpus.
  std::string merging() const { return folder_ + "/merging"; }
  std::string control() const { return folder_ + "/merge.control"; }

  // The shared folder and those of all jobs that have something in them, also of more jobs than now.
  std::vector<std::string> Folders() const;
  int64_t Size() const;  // inputs, over all folders

  void StartMerge() const;
  // Makes what was merged the shared folder, and drops the inputs that were merged into it: none may be
  // written meanwhile.
  void FinishMerge() const;
  // Drops what was merged so far.
  void AbandonMerge() const;
  // Where merges have failed: keeps the newest inputs of the jobs, so many in each folder.
  void Trim(int64_t most) const;

 private:
  explicit Corpus(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

// Files in a folder, temporary ones (.tmp) aside; 0 where there is none.
int64_t CountInputs(const std::string& folder);

}  // namespace attest

#endif  // ATTEST_HARNESS_NIGHT_CORPUS_H_
