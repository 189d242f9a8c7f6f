// A shared library that is no plug-in.
extern "C" __attribute__((visibility("default"))) int no_kernel_here(void) {
  return 1;
}
