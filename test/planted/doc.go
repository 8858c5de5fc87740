// Package planted proves that the differential tests of this repository can fail. Each file in bugs plants one bug:
// it replaces some text of a source file, in an overlay of the build, and names the test that must catch the bug by
// an assertion. The source itself is not changed.
//
// A file begins with
//
//	package ./controlplane
//	test    TestFastPath/plain
//
// the package of the test and the test. A test of another module has a line before these, with the folder of its go.mod:
//
//	module  test/mirror
//
// The source file follows, as in a txtar archive; its content is the text that
// is replaced, which the file must have exactly once, a line of equals signs, and the text in its place.
//
// The bugs lab-* in examples are mutations of them, for their lab tests. The list had 42 before the first run. The lab tests catch 36; the
// faults, the checks and two scenarios have grown since the first run, after what had escaped. The other six are in the folder
// equivalent: they change nothing that a run can see at rest, or nothing that is a mistake, and each file says why.
//
// Without flags, go test plants eight bugs, others for each commit, and at most two of them for tests of other modules; -all plants all,
// and -run TestPlanted/NAME one. The tests run at the full level.
package planted
