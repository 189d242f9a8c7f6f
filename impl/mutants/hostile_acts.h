// The misdeeds themselves, by what they abuse: tensors (hostile_tensors.cc) or the process and its
// surroundings (hostile_process.cc). Private to the table in hostile.cc, which says what each does.
#ifndef ATTEST_MUTANTS_HOSTILE_ACTS_H_
#define ATTEST_MUTANTS_HOSTILE_ACTS_H_

#include "impl/mutants/hostile.h"

namespace attest::hostile {

#define ATTEST_HOSTILE_ACT(name) void name(attest_call& call, HostileState& state)

// Tensors and their surroundings.
ATTEST_HOSTILE_ACT(ReadPast);
ATTEST_HOSTILE_ACT(ReadFarPast);
ATTEST_HOSTILE_ACT(ReadBefore);
ATTEST_HOSTILE_ACT(WritePast);
ATTEST_HOSTILE_ACT(WriteBefore);
ATTEST_HOSTILE_ACT(WriteInput);
ATTEST_HOSTILE_ACT(ForceInput);
ATTEST_HOSTILE_ACT(WriteGap);
ATTEST_HOSTILE_ACT(KeepRow);
ATTEST_HOSTILE_ACT(RestoreRow);
ATTEST_HOSTILE_ACT(SkipOutputs);
ATTEST_HOSTILE_ACT(WriteLater);
ATTEST_HOSTILE_ACT(WritePrevious);
ATTEST_HOSTILE_ACT(Scribble);
ATTEST_HOSTILE_ACT(ScribbleNote);
ATTEST_HOSTILE_ACT(ShrinkArena);
ATTEST_HOSTILE_ACT(GrowArena);
ATTEST_HOSTILE_ACT(LoadMisaligned);
ATTEST_HOSTILE_ACT(ChangeALittle);
ATTEST_HOSTILE_ACT(RememberOutput);

// Crashes and ends.
ATTEST_HOSTILE_ACT(Segfault);
ATTEST_HOSTILE_ACT(WildWrite);
ATTEST_HOSTILE_ACT(Jump);
ATTEST_HOSTILE_ACT(StackOverflow);
ATTEST_HOSTILE_ACT(Exit);
ATTEST_HOSTILE_ACT(Throw);
ATTEST_HOSTILE_ACT(ThrowInt);
ATTEST_HOSTILE_ACT(ExitHanging);

// Time and memory.
ATTEST_HOSTILE_ACT(Hang);
ATTEST_HOSTILE_ACT(HangDeaf);
ATTEST_HOSTILE_ACT(Deadlock);
ATTEST_HOSTILE_ACT(Late);
ATTEST_HOSTILE_ACT(Print);
ATTEST_HOSTILE_ACT(PrintEndlessly);
ATTEST_HOSTILE_ACT(Allocate);
ATTEST_HOSTILE_ACT(AllocateOn);
ATTEST_HOSTILE_ACT(AllocateUnchecked);
ATTEST_HOSTILE_ACT(Leak);

// The floating-point environment.
ATTEST_HOSTILE_ACT(FlushToZero);
ATTEST_HOSTILE_ACT(Round);
ATTEST_HOSTILE_ACT(Trap);

// Other processes.
ATTEST_HOSTILE_ACT(Fork);
ATTEST_HOSTILE_ACT(ForkAway);
ATTEST_HOSTILE_ACT(ForkMany);
ATTEST_HOSTILE_ACT(ForkAndDie);
ATTEST_HOSTILE_ACT(ForkAndReturn);
ATTEST_HOSTILE_ACT(KillParent);
ATTEST_HOSTILE_ACT(StopParent);
ATTEST_HOSTILE_ACT(TraceParent);
ATTEST_HOSTILE_ACT(KillGroup);

// Descriptors and the rest of the surroundings.
ATTEST_HOSTILE_ACT(Garble);
ATTEST_HOSTILE_ACT(Flood);
ATTEST_HOSTILE_ACT(CloseControl);
ATTEST_HOSTILE_ACT(CloseAll);
ATTEST_HOSTILE_ACT(Unsettle);
ATTEST_HOSTILE_ACT(Litter);
ATTEST_HOSTILE_ACT(LimitItself);
ATTEST_HOSTILE_ACT(BlockSignals);

#undef ATTEST_HOSTILE_ACT

}  // namespace attest::hostile

#endif  // ATTEST_MUTANTS_HOSTILE_ACTS_H_
