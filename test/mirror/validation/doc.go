// Package validation holds the defaults, the strategies and the validation of our built-in kinds against
// Kubernetes', in one process. Each write of a generated object goes through both, and the objects, the errors
// and the warnings that come out must be equal. differences.txt lists where they are not, with the reasons.
//
// The number of writes of a kind is the flag -objects, and -kind selects kinds by a regular expression. A long run prints its
// progress; an interrupt ends it with the report of what it has found:
//
//	go test -C test/mirror ./validation -run TestStrategies -v -objects 1000000 -kind '^pods$' -timeout 0
//
// TestRecording records Kubernetes' answers for package builtin, which replays them:
//
//	go test -C test/mirror ./validation -run TestRecording -record -objects 900 -timeout 30m
//
// A recorded write stays, unless other writes show all that it shows. With -objects 0, only the seeds and the writes of
// testdata/requests.jsonl are added.
package validation
