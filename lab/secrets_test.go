package lab

import (
	"context"
	"encoding/base64"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
)

// TestSecrets: no finding shows a value of a Secret, but it says that the value is another.
func TestSecrets(t *testing.T) {
	const password, other = "hunter2-hunter2", "letmein-letmein"
	runs := 0
	write := func(value func(*corev1.ConfigMap) string) Operator {
		return operatorOf(func(ctx context.Context, c client.Client, original *corev1.ConfigMap) error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			secret.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: value(original)}
			secret.Data = map[string][]byte{"password": []byte(value(original))}
			err := client.IgnoreAlreadyExists(c.Create(ctx, secret))
			if err == nil && secret.UID == "" {
				err = c.Update(ctx, secret)
			}
			return err
		})
	}
	first := func(original *corev1.ConfigMap) string { // writes another password after an edit by somebody else
		if original.Annotations[editAnnotation] != "" {
			return other
		}
		return password
	}
	random := func(*corev1.ConfigMap) string {
		if runs%2 == 0 {
			return other
		}
		return password
	}
	edit := Schedule{{Do: Edit, At: Point{Action: atRest, N: 1}, Object: "ConfigMap default/web"}}
	for _, tc := range []struct {
		name     string
		value    func(*corev1.ConfigMap) string
		schedule Schedule
		want     []string
	}{
		{"convergence", first, edit, []string{"Secret default/web: data.password is another value, want a value", "data.password: a value → another value"}},
		{"chance", random, Schedule{{Do: Hold, At: Point{Action: "operator see configmaps default/web added", N: 1}}}, []string{"data.password=value "}},
	} {
		scenario := copied()
		scenario.Begin = func() { runs++ }
		scenario.Twice = tc.name == "chance"
		e := learned(t, write(func(o *corev1.ConfigMap) string {
			if runs < 5 && tc.name == "chance" {
				return password
			}
			return tc.value(o)
		}), scenario)
		runs = 5
		report := &Report{}
		e.try(tc.schedule, report, newCoverage(&points{}, nil))
		if len(report.Findings) != 1 {
			t.Errorf("%s: %d findings, want 1", tc.name, len(report.Findings))
			continue
		}
		f := report.Findings[0]
		path, err := f.Save(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all := f.Message + "\n" + f.Story + "\n" + f.Divergence + "\n" + string(file)
		for _, value := range []string{password, other} {
			if strings.Contains(all, value) || strings.Contains(all, base64.StdEncoding.EncodeToString([]byte(value))) {
				t.Errorf("%s: the finding has the value of a Secret:\n%s", tc.name, all)
			}
		}
		for _, want := range tc.want {
			if !strings.Contains(all, want) {
				t.Errorf("%s: the finding lacks %q:\n%s", tc.name, want, all)
			}
		}
	}
}
