package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadSchedule refuses files that are no findings of this version.
func TestReadSchedule(t *testing.T) {
	for _, tc := range []struct{ name, content, want string }{
		{"right", `{"version": 1, "schedule": [{"do": "hold", "at": {"action": "operator create pods default/a"}}]}`, ""},
		{"other version", `{"version": 2, "schedule": [{"do": "hold", "at": {"action": "x"}}]}`, "the file has version 2, and this lab reads version 1"},
		{"no version", `{"schedule": [{"do": "hold", "at": {"action": "x"}}]}`, "the file has version 0"},
		{"empty", `{"version": 1, "schedule": []}`, "the schedule is empty"},
		{"unknown field", `{"version": 1, "plan": []}`, `unknown field "plan"`},
		{"no JSON", `hold`, "not a finding of the lab"},
	} {
		path := filepath.Join(t.TempDir(), "finding.json")
		if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSchedule(path)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
		if tc.want == "" && len(s) != 1 {
			t.Errorf("%s: %d choices, want 1", tc.name, len(s))
		}
	}
}
