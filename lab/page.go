package lab

import (
	"bytes"
	_ "embed" // for pageText
	"flag"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
)

var htmlDir = flag.String("flyball.html", "", "write each finding of package lab as a page of HTML into this directory")

//go:embed page.html
var pageText string

// pageTemplate is a finding as a page without scripts: a lane each for what was true, what the operator saw and what it wrote.
var pageTemplate = template.Must(template.New("finding").Parse(pageText))

// SaveHTML writes the finding as a page of HTML into a file of a directory, which need not exist, and returns the path of the file. The page
// needs no other file. The file has the name of the file of [Finding.Save], with the suffix .html.
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
	return pageTemplate.Execute(out, struct {
		*Finding
		Lines    []line
		At, Left string
	}{f, f.lines, age(f.at), left})
}

// savePage writes a finding into the directory of the flag -flyball.html, and says where.
func (e *explorer) savePage(f *Finding) string {
	if *htmlDir == "" || f.page != "" {
		return f.page
	}
	path, err := f.SaveHTML(filepath.Join(*htmlDir, e.name))
	if err != nil {
		e.t.Error(err)
		return ""
	}
	return "\nsee " + path
}
