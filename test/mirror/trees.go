package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"flyball.dev/test/mirror/references"
)

// root is the folder of the main module.
const root = "../.."

// trees are the folders of our code below which each package mirrors Kubernetes, or says that it does not.
var trees = []string{
	"apiserver/admission",
	"apiserver/aggregator",
	"apiserver/authz",
	"apiserver/background",
	"apiserver/crd",
	"apiserver/endpoints",
	"apiserver/kinds",
	"apiserver/managedfields",
	"apiserver/serviceaccount",
	"controllers",
	"internal/quota",
}

// uncovered returns an error for each package of the trees that has neither references nor a reason.
func uncovered(packages map[string]*references.Package) []error {
	var wrong []error
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		if p := packages[folder]; p.References == 0 && p.None == "" && mirrored(folder) {
			wrong = append(wrong, fmt.Errorf("package %s has no reference to the Kubernetes code that it mirrors, and no //upstream:none REASON in its package comment", folder))
		}
	}
	return wrong
}

// mirrored reports whether a folder is in a tree.
func mirrored(folder string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return folder == tree || strings.HasPrefix(folder, tree+"/") })
}
