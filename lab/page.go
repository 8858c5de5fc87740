package lab

import (
	"bytes"
	"flag"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
)

var htmlDir = flag.String("flyball.html", "", "write each finding of package lab as a page of HTML into this directory")

// page is a finding as a page without scripts: a lane each for what was true, what the operator saw and what it wrote.
var page = template.Must(template.New("finding").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Check}}</title>
<style>
:root { color-scheme: light dark; --paper: #fbfaf7; --ink: #1d1d1b; --dim: #5d5b55; --line: #dfdcd3;
  --bad: #a3201b; --bad-bg: #fae5e2; --warn: #7a4a00; --warn-bg: #faecd0; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #161614; --ink: #ebe9e2; --dim: #a8a59b; --line: #37352f;
    --bad: #ff9d94; --bad-bg: #3d1714; --warn: #f0c36d; --warn-bg: #362808; }
}
body { font: 15px/1.5 system-ui, sans-serif; background: var(--paper); color: var(--ink); max-width: 80rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem } pre { white-space: pre-wrap; font-size: .85rem; margin: .2rem 0 }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100%; min-width: 45rem }
th, td { border-top: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top }
th:first-child, td:first-child { width: 5rem; white-space: nowrap; color: var(--dim) }
.why { color: var(--dim); font-size: .9rem } .step { font-weight: 600 }
.fault { color: var(--warn); background: var(--warn-bg) } .bad { color: var(--bad); background: var(--bad-bg) }
</style>
<h1>{{.Check}}</h1>
<pre class="bad">{{.Message}}</pre>
{{with .Schedule}}<ol>{{range .}}<li class="fault">⚡ {{.String}}</li>
{{end}}</ol>{{end}}
{{with .Steps}}<p>Only these steps of the scenario:</p>
<ul>{{range .}}<li>{{.N}}: {{.Name}}</li>
{{end}}</ul>{{end}}
{{with .Divergence}}<p>The operator depends on chance, and a replay need not show this. In a replay,</p>
<pre>{{.}}</pre>{{end}}
{{if .Lines}}<div class="scroll"><table>
<thead><tr><th scope="col">time</th><th scope="col">what was true</th><th scope="col">what the operator saw</th><th scope="col">what the operator wrote</th></tr></thead>
<tbody>
{{range .Lines}}{{if .IsPlain}}<tr><td>{{.At}}</td><td colspan="3" class="{{if .IsFault}}fault{{else}}step{{end}}">{{if .IsFault}}⚡ {{end}}{{.Text}}</td></tr>
{{end}}{{if or .Saw .Wrote .Changes}}<tr><td>{{if not .IsPlain}}{{.At}}{{end}}</td>
<td>{{if .ByCluster}}<div class="why">{{.Text}}</div>{{end}}{{range .Changes}}<div>{{.Text}}</div>{{with .Fields}}<pre>{{.}}</pre>{{end}}{{end}}</td>
<td{{if and .Saw .IsFault}} class="fault"{{end}}>{{if .Saw}}{{template "action" .}}{{end}}</td>
<td{{if and .Wrote .IsFault}} class="fault"{{end}}>{{if .Wrote}}{{template "action" .}}{{end}}</td></tr>
{{end}}{{end}}<tr id="finding"><td>{{.At}}</td><td colspan="3" class="bad">✗ {{.Check}}</td></tr>
</tbody></table></div>
{{else}}<pre>{{.Story}}</pre>
{{end}}{{with .Left}}<h2>The goroutines that are left</h2>
<pre>{{.}}</pre>
{{end}}</html>
{{define "action"}}{{.Text}}{{if .IsFault}} <strong>⚡ {{.Fault}}</strong>{{end}}{{with .Causes}}<div class="why">because {{.}}</div>{{end}}{{end}}`))

// SaveHTML writes the finding as a page of HTML into a file of a directory, which need not exist, and returns the path of the file. The page
// needs no other file. Its name is the one of the file of [Finding.Save].
func (f *Finding) SaveHTML(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, strings.TrimSuffix(f.saved().fileName(), savedSuffix)+".html")
	var content bytes.Buffer
	if err := f.writeHTML(&content); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, content.Bytes(), 0o644)
}

func (f *Finding) writeHTML(out io.Writer) error {
	var left string
	if len(f.left) > 0 {
		left = stacksOf(f.left)
	}
	return page.Execute(out, struct {
		*Finding
		Lines    []line
		At, Left string
	}{f, f.lines, age(f.at), left})
}

// page writes a finding into the directory of the flag -flyball.html, and says where.
func (e *explorer) page(f *Finding) string {
	if *htmlDir == "" {
		return ""
	}
	path, err := f.SaveHTML(filepath.Join(*htmlDir, e.name))
	if err != nil {
		e.t.Error(err)
		return ""
	}
	return "\nsee " + path
}
