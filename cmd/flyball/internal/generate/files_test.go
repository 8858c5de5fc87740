package generate

import "testing"

// TestSameGenerated compares files with generated content after git or an editor has converted line endings.
func TestSameGenerated(t *testing.T) {
	const version = "    " + versionAnnotation + ": v0.1.0\n"
	for name, tc := range map[string]struct {
		file, content string
		want          bool
	}{
		"equal":                {"# header\nspec: {}\n", "# header\nspec: {}\n", true},
		"other":                {"# header\nspec: {}\n", "# header\nspec: {a: b}\n", false},
		"version":              {"metadata:\n" + version + "spec: {}\n", "metadata:\n    " + versionAnnotation + ": v0.2.0\nspec: {}\n", true},
		"Windows file":         {"# header\r\nspec: {}\r\n", "# header\nspec: {}\n", true},
		"Windows header":       {"# header\r\nspec: {}\n", "# header\r\nspec: {}\n", true},
		"converted header":     {"# header\nspec: {}\n", "# header\r\nspec: {}\n", true},
		"other Windows header": {"# header\r\nspec: {}\n", "# heading\r\nspec: {}\n", false},
	} {
		if got := sameGenerated([]byte(tc.file), []byte(tc.content)); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
