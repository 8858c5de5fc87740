package lab

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
)

// hostile is a name or a value that a page must not take for its own text.
const hostile = `"><script src=https://example.com/x.js></script></pre><img src=x onerror=alert(1)>`

// pageOf returns the page of a finding, and its path.
func pageOf(t *testing.T, f *Finding) (content, path string) {
	t.Helper()
	path, err := f.SaveHTML(filepath.Join(t.TempDir(), "pages"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(all), path
}

var tags = regexp.MustCompile(`<[a-zA-Z!/][^>]*>`)

// checkPage checks that a page needs no network and no script, and has nothing of its content as an element.
func checkPage(t *testing.T, content string) {
	t.Helper()
	for _, tag := range tags.FindAllString(content, -1) {
		name := strings.ToLower(strings.FieldsFunc(tag, func(r rune) bool { return strings.ContainsRune("<>/ \n", r) })[0])
		if slices.Contains([]string{"script", "img", "link", "iframe", "a"}, name) || strings.Contains(tag, "src=") || strings.Contains(tag, "onerror") {
			t.Errorf("the page has the element %s", tag)
		}
	}
	for _, want := range []string{"prefers-color-scheme: dark", "default-src 'none'", "</table>", "what was true", "what the operator saw", "what the operator wrote"} {
		if !strings.Contains(content, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestPage writes a finding as a page: the lanes have the words of the story, and the choices are marked.
func TestPage(t *testing.T) {
	e := learned(t, copier(ignore), copied())
	report := &Report{}
	e.try(twoSecrets, report, newCoverage(&points{}, nil))
	f := report.Findings[0]
	content, path := pageOf(t, f)
	checkPage(t, content)
	if want := strings.TrimSuffix(f.saved().fileName(), savedSuffix) + ".html"; filepath.Base(path) != want {
		t.Errorf("the file is %s, want %s", path, want)
	}
	lanes := regexp.MustCompile(`>\s+<`).ReplaceAllString(content, "><")
	for _, want := range []string{
		"<h1>convergence</h1>",
		`<li class="fault">⚡ crash after at &#34;operator create secrets default/web-*&#34;</li>`,
		`<td colspan="3" class="step">step: create default/web</td>`,
		"<td><div>created ConfigMap default/web</div></td><td></td><td></td>",                                                                                                   // was true
		"<td>operator see configmaps default/web added</td><td></td></tr>",                                                                                                      // seen
		`<td></td><td class="fault">operator create secrets default/web-* <strong>⚡ crash after</strong><div class="why">because created ConfigMap default/web</div></td></tr>`, // written
		`<td colspan="3" class="fault">⚡ operator starts again</td>`,
		"<div>changed ConfigMap default/web</div><pre>metadata.annotations.copied: none → true</pre>",
		`<td colspan="3" class="bad">✗ convergence</td>`,
	} {
		if !strings.Contains(lanes, want) {
			t.Errorf("the page lacks %s:\n%s", want, content)
		}
	}
}

// TestHostilePage: names, values and messages are text, whatever is in them.
func TestHostilePage(t *testing.T) {
	web := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Data: map[string]string{"key": "value"}}
	scenario := copied()
	change := Update(web, func(c *corev1.ConfigMap) { c.Data["key"] = hostile })
	scenario.Steps = []Step{{Name: "create " + hostile, Do: func(ctx context.Context, c client.Client) error {
		return errors.Join(Create(web).Do(ctx, c), change.Do(ctx, c))
	}}}
	scenario.Invariants = []Invariant{{Name: hostile, Check: func(s *State) error {
		if len(s.All("Secret")) > 1 {
			return errors.New(hostile)
		}
		return nil
	}}}
	e, err := newExplorer(t, copier(ignore), scenario)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	f, err := e.learn() // the update makes the operator create two Secrets
	if f == nil || f.Check != invariant {
		t.Fatalf("the invariant holds: %v", err)
	}
	f.Divergence, f.Steps, f.Schedule = hostile, e.refs(), Schedule{{Do: Hold, At: Point{Action: hostile}}}
	content, _ := pageOf(t, f)
	checkPage(t, content)
	if n := strings.Count(content, "&lt;script src=https://example.com/x.js&gt;"); n < 7 {
		t.Errorf("the page has the text %d times:\n%s", n, content)
	}
	content, _ = pageOf(t, &Finding{Check: panicked, Message: hostile, Story: hostile}) // of a process that has ended
	if strings.Contains(content, "<script") || !strings.Contains(content, "<pre>&#34;&gt;&lt;script") {
		t.Errorf("the page of a panic is\n%s", content)
	}
}

// TestSecretPage: the page of a finding has no value of a Secret.
func TestSecretPage(t *testing.T) {
	const password = "hunter2-hunter2"
	op := operatorOf(func(ctx context.Context, c client.Client, original *corev1.ConfigMap) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		if original.Annotations[editAnnotation] == "" {
			return client.IgnoreAlreadyExists(c.Create(ctx, secret))
		}
		secret.Data = map[string][]byte{"password": []byte(password)}
		return c.Update(ctx, secret)
	})
	e := learned(t, op, copied())
	r := e.run(Schedule{{Do: Edit, At: Point{Action: atRest, N: 1}, Object: "ConfigMap default/web"}}, clean{})
	if r.finding == nil {
		t.Fatal("nothing was found")
	}
	content, _ := pageOf(t, r.finding)
	checkPage(t, content)
	encoded := base64.StdEncoding.EncodeToString([]byte(password))
	if strings.Contains(content, password) || strings.Contains(content, encoded[:12]) || !strings.Contains(content, "data.password: none → a value") {
		t.Errorf("the page is\n%s", content)
	}
}

// TestPageFlag: the flag names the directory for the pages of findings, new and replayed, and without it there are none.
func TestPageFlag(t *testing.T) {
	t.Chdir(t.TempDir())
	e := learned(t, copier(ignore), copied())
	t.Cleanup(func() { *htmlDir = "" })
	path, _ := write(t, t.TempDir(), saved{Version: replayVersion, Check: convergence, Schedule: twoSecrets})
	for _, dir := range []string{"", "pages"} {
		*htmlDir = dir
		err := e.replayFile(path)
		pages, _ := filepath.Glob("*/*/*.html")
		if err == nil || len(pages) > 0 != (dir != "") {
			t.Fatalf("%q: the pages %v, and the error %v", dir, pages, err)
		}
		if dir != "" && !strings.Contains(err.Error(), "\nsee "+pages[0]) {
			t.Errorf("the error does not name %s: %v", pages[0], err)
		}
	}
}
