// Package validation holds the defaults, the strategies and the validation of our built-in kinds against
// Kubernetes's, in one process. Each write of a generated object goes through both, and the objects, the errors
// and the warnings that come out must be equal. differences.txt lists where they are not, with the reasons.
//
// The number of writes of a kind is the flag -objects, and -kind selects kinds by a regular expression:
//
//	go test ./validation -run TestStrategies -objects 1000000 -kind '^pods$' -timeout 0
package validation
