// Command oracle compares this module's API server with the real kube-apiserver.
//
//	go run . build       builds kube-apiserver, kube-controller-manager and etcd into the user's cache directory, once
//	go run . compare     runs the scripts against both, and writes docs/fidelity.md
//	go run . record      runs the scripts against kube-apiserver, and rewrites their answers
//	go run . generate    sends requests derived from the schema of each kind to both
//	go run . run c...    runs a command in the repository's root against kube-apiserver
//
// The modules in kubernetes and etcd pin the programs as tools; building them takes a quarter of
// an hour, so nothing but the command build does it.
//
// The command of "run" gets the environment variable FLYBALL_TEST_KUBECONFIG, with which the tests of the runtime use
// that server. The oracle exits with the exit code of the command. From the repository's root:
//
//	go run -C test/oracle . run -- go test -p 1 -count 1 ./ctrl/...
//
// By flags of "run", kube-apiserver stores in another program than etcd, or in a server of etcd's API that runs, and
// kube-controller-manager runs too. So the conformance tests run on kube-apiserver over both, and must have the same results
// (package conformance):
//
//	go run -C test/oracle . run -controllers -- go test -C test/conformance . -all -limit 90s -timeout 3h -results /tmp/etcd
//	go run -C test/oracle . run -controllers -etcd "$(flyball assets)/etcd" -- \
//		go test -C test/conformance . -timeout 3h -like /tmp/etcd
//
// # Scripts
//
// A script is a txtar archive in testdata. Its sections are requests, each followed by a section "answer" with the
// answer of kube-apiserver:
//
//	-- a name is required --
//	POST v1/configmaps
//
//	data: {a: b}
//	-- answer --
//	422
//
//	...
//
// The first line of a request is its method and path. A path without a leading slash consists of an
// API version and a path in the namespace of the script. Headers follow, an empty line, and the
// body in YAML, which is sent as JSON unless there is a Content-Type header. Several bodies,
// separated by lines that begin with "---" and may continue with a title, are sent one by one.
//
// The methods MERGE, STRATEGIC, JSONPATCH and APPLY are PATCH with the respective content type, and
// the last with a field manager. WATCH starts a watch, and EVENTS n closes it after n events.
//
// A section with a name that begins with $ is a template. A body with the name of a template as its first line is a
// copy of that object, changed by the following lines: "path: value" sets a field, "delete path" removes it.
//
// Headers that begin with $ are directives:
//
//	$name: path     sets the variable $name to a field of the answer
//	$show: path     records only that field of the answer; several are separated by spaces
//	$until: 200     repeats the request until it is answered with this code, or
//	$until: path=v  until a field of the answer has this value
//	$as: anonymous  sends the request without a client certificate
//
// Variables are replaced in paths, headers and bodies; $NS is the namespace.
//
// # Answers
//
// An answer is a status code, the unusual headers, and the normalised body as YAML. Values that are random or depend on
// time are replaced by symbols; equal values have equal symbols throughout a script.
//
// testdata/differences.txt lists the differences between this module's server and the recorded answers. Each difference
// stands below its reason, a line that begins with "# choice:" (deliberate) or "# gap:" (not built yet). Go tests
// compare this module's server with the recorded answers. They fail when a difference is not listed, and when a listed
// difference is gone, so the gaps can only shrink.
package main
