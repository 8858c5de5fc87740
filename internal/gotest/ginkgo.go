package gotest

import (
	"fmt"
	"path/filepath"
	"strings"
)

// spec is what a report of Ginkgo says of a spec, or of a node such as BeforeSuite.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	LeafNodeLocation        struct {
		FileName   string
		LineNumber int
	}
	State   string
	Failure struct{ Message string }
}

func (s spec) name(folder string) string {
	text := OneLine(strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "))
	name := fmt.Sprintf("%s/%s:%d %s", folder, filepath.Base(s.LeafNodeLocation.FileName), s.LeafNodeLocation.LineNumber, text)
	if s.LeafNodeType != "It" {
		name += s.LeafNodeType
	}
	return name
}

func (s spec) failure() string {
	switch {
	case s.LeafNodeType != "It":
		return tail(s.Failure.Message)
	case s.State == "passed", s.State == "pending", s.State == "skipped" && s.Failure.Message != "":
		return ""
	}
	return s.State + "\n" + tail(s.Failure.Message)
}

// OneLine replaces all space by single blanks, as in the names of specs.
func OneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
