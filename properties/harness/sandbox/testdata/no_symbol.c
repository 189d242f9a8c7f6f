/* A shared library that is no plug-in. */
int not_a_kernel(void);
int not_a_kernel(void) { return 0; }
