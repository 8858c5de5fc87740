package plan

import (
	"html/template"
	"io"
)

// page is a plan as a page without scripts.
var page = template.Must(template.New("plan").Funcs(template.FuncMap{
	"name": name,
	"sign": func(a Action) string { return signs[a] },
}).Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Summary}}</title>
<style>
:root { color-scheme: light dark; --line: light-dark(#d5d8dc, #3b4048); --soft: light-dark(#5c6470, #9aa3af);
  --create: light-dark(#1a6b34, #7ed092); --update: light-dark(#805400, #e3b65a); --delete: light-dark(#a4211c, #ff8f86); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
summary, .object { border-top: 1px solid var(--line); padding: .4rem 0 }
pre { overflow-x: auto; font-size: .85rem; margin: .3rem 0 .8rem 1.4rem; white-space: pre-wrap }
.who, .source { color: var(--soft); margin: 0 0 0 1.4rem } .source { margin: 0 }
.create { color: var(--create) } .update, .replace { color: var(--update) } .delete, .error { color: var(--delete) }
</style>
<h1>{{.Summary}}</h1>
{{with .Source}}<p class="source">{{.}}</p>{{end}}
{{range .Steps}}{{if .Error}}<p class="error">{{.Name}}: refused: {{.Error}}</p>{{end}}{{end}}
{{define "changes"}}{{range .}}<details><summary><strong class="{{.Action}}">{{sign .Action}} {{.Title}}</strong> {{name .Kind .APIVersion .Namespace .Name}}{{with .Owner}} of {{.}}{{end}}</summary>
{{range .Writes}}<p class="who">{{.}}</p>
{{end}}{{if .Fields}}<pre>{{range .Fields}}{{.Path}}: {{.}}
{{end}}</pre>{{end}}{{if .Object}}<pre>{{.Manifest}}</pre>{{end}}</details>
{{end}}{{end}}
{{template "changes" .Changes}}
{{if .Drift}}<h2>Already before the change, the operator would do this</h2>
{{template "changes" .Drift}}{{end}}
{{if .Refused}}<h2>Refused by the API server</h2>
{{range .Refused}}<div class="object">{{.Object}}: {{.Write}}<br><span class="error">{{.Message}}</span></div>
{{end}}{{end}}
{{if .Loops}}<h2>Never quiet</h2>
<p>These objects still change at the end, and the plan is not complete.</p>
{{range .Loops}}<div class="object">{{name .Kind .APIVersion .Namespace .Name}}{{range .Writes}}<p class="who">{{.}}</p>{{end}}<pre>{{range .Fields}}{{.Path}}: {{.}}
{{end}}</pre></div>
{{end}}{{end}}
{{if .Unknown}}<h2>Not known</h2>
<ul>{{range .Unknown}}<li>{{.What}}: {{.Why}}</li>
{{end}}</ul>{{end}}
</html>
`))

// WriteHTML writes a plan as a page of HTML, which needs no other file.
func (p *Plan) WriteHTML(out io.Writer) error { return page.Execute(out, p) }
