package batch

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// TestJobStatus checks which changes of the status of a running job are refused.
func TestJobStatus(t *testing.T) {
	const running = `{active: 1, succeeded: 1, startTime: "2024-01-01T00:00:00Z"}`
	for status, want := range map[string][]string{
		running: nil,
		`{active: 1, succeeded: 1, startTime: "2024-01-01T00:00:00Z", completionTime: "2024-01-02T00:00:00Z"}`: {"status.completionTime"},
		`{active: 1, succeeded: 0, startTime: "2024-01-01T00:00:00Z"}`:                                         {"status.succeeded"},
		`{active: 1, succeeded: 1, ready: 2, startTime: "2024-01-01T00:00:00Z"}`:                               {"status.ready"},
		`{active: 1, succeeded: 1}`: {"status.startTime"},
		`{active: -1, succeeded: -1, failed: -1, startTime: "2024-01-01T00:00:00Z"}`:                                                                               {"status.active", "status.succeeded", "status.failed", "status.failed", "status.succeeded"},
		`{succeeded: 1, startTime: "2024-01-01T00:00:00Z", conditions: [{type: Failed, status: "True"}]}`:                                                          {"status.conditions"},
		`{succeeded: 1, startTime: "2024-01-01T00:00:00Z", completedIndexes: "0"}`:                                                                                 {"status.completedIndexes"},
		`{succeeded: 1, startTime: "2024-01-01T00:00:00Z", conditions: [{type: FailureTarget, status: "True"}]}`:                                                   nil,
		`{active: 1, succeeded: 1, startTime: "2024-01-01T00:00:00Z", failedIndexes: "1-3,5"}`:                                                                     nil,
		`{active: 1, succeeded: 1, startTime: "2024-01-01T00:00:00Z", failedIndexes: "1-3,5", completedIndexes: "4-6"}`:                                            {"status.completedIndexes", "status.failedIndexes"},
		`{active: 1, succeeded: 1, startTime: "2024-01-01T00:00:00Z", conditions: [{type: Complete, status: "True"}, {type: SuccessCriteriaMet, status: "True"}]}`: {"status.completionTime", "status.active"},
	} {
		now, old := &batchv1.Job{}, &batchv1.Job{}
		now.Spec = batchv1.JobSpec{Completions: new(int32(9)), BackoffLimitPerIndex: new(int32(1))}
		if err := yaml.Unmarshal([]byte("status: "+status), now); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte("status: "+running), old); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, err := range validateJobStatus(now, old) {
			got = append(got, err.Field)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got errors of %v, want %v", status, got, want)
		}
	}
}
