package references

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// gopkgVersion is the version at the end of a path such as gopkg.in/yaml.v3.
var gopkgVersion = regexp.MustCompile(`^v[0-9]+\.`)

// Reference names Kubernetes code.
type Reference struct {
	// Folder is a folder of k8s.io/kubernetes, or the import path of a package of another module.
	Folder string
	// File is set for a reference to a file.
	File string
	// Name is the name of a declaration, or Type.Method. A reference with neither a File nor a Name is to the package.
	Name string
}

// Parse parses a reference, as it is in a directive.
func Parse(text string) (Reference, error) {
	if text == "" {
		return Reference{}, fmt.Errorf("no reference")
	}
	if strings.ContainsAny(text, " \t") {
		return Reference{}, fmt.Errorf("%q has spaces; a line has one reference and nothing else", text)
	}
	if strings.HasPrefix(text, "/") || strings.Contains(text, "//") {
		return Reference{}, fmt.Errorf("%q has an empty element", text)
	}
	if rest, ok := strings.CutPrefix(text, "staging/src/"); ok {
		return Reference{}, fmt.Errorf("%s is a module of its own: write %s", text, rest)
	}
	if folder, ok := strings.CutSuffix(text, "/"); ok {
		return Reference{Folder: folder}, nil
	}
	folder, last := path.Split(text)
	if strings.HasSuffix(last, ".go") {
		return Reference{Folder: strings.TrimSuffix(folder, "/"), File: last}, nil
	}
	element, name, _ := strings.Cut(last, ".")
	if version := gopkgVersion.FindString(name); version != "" {
		element, name = element+"."+version[:len(version)-1], name[len(version):]
	}
	if name == "" || strings.Count(name, ".") > 1 || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
		return Reference{}, fmt.Errorf("%s is not PATH.NAME, PATH.TYPE.METHOD, PATH/FILE.go or PATH/", text)
	}
	return Reference{Folder: folder + element, Name: name}, nil
}

// String returns the reference as it is in a directive.
func (r Reference) String() string {
	switch {
	case r.File != "":
		return r.Folder + "/" + r.File
	case r.Name != "":
		return r.Folder + "." + r.Name
	}
	return r.Folder + "/"
}
