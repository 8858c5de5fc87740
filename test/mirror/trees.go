package main

import (
	_ "embed"
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
	"apiserver/crd",
	"apiserver/endpoints",
	"apiserver/kinds",
	"apiserver/managedfields",
	"apiserver/serviceaccount",
	"controllers",
	"internal/quota",
}

// pendingList has the packages that have no references yet, one on a line. It only shrinks.
//
//go:embed pending.txt
var pendingList string

// uncovered returns an error for each package of the trees that has neither references nor a reason, and is not pending, and for
// each that is pending without need.
func uncovered(packages map[string]*references.Package, pending []string) []error {
	var wrong []error
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		p := packages[folder]
		covered := p.References > 0 || p.None != ""
		switch {
		case !covered && mirrored(folder) && !slices.Contains(pending, folder):
			wrong = append(wrong, fmt.Errorf("package %s has no reference to the Kubernetes code that it mirrors, and no //upstream:none REASON in its package comment", folder))
		case covered && slices.Contains(pending, folder):
			wrong = append(wrong, fmt.Errorf("package %s has references: take it from pending.txt", folder))
		}
	}
	for _, folder := range pending {
		if packages[folder] == nil {
			wrong = append(wrong, fmt.Errorf("there is no package %s: take it from pending.txt", folder))
		}
	}
	return wrong
}

// mirrored reports whether a folder is in a tree.
func mirrored(folder string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return folder == tree || strings.HasPrefix(folder, tree+"/") })
}
