package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// modules have Kubernetes's validation.
var modules = []string{"k8s.io/kubernetes", "k8s.io/kube-aggregator"}

// readKubernetes reads the validation packages of Kubernetes and unreachable.txt. folder is the folder of package validation.
func readKubernetes(folder string) (*source, error) {
	src := newSource()
	for _, module := range modules {
		root, err := output(folder, "go", "list", "-m", "-f", "{{.Dir}}", module)
		if err != nil {
			return nil, err
		}
		if err := src.readModule(module, strings.TrimSpace(root)); err != nil {
			return nil, err
		}
	}
	return src, src.readUnreachable(filepath.Join(folder, "coverage/unreachable.txt"))
}

// measure runs the writes of the kinds with names that match, and returns how much validation each reaches, in the order of
// their names. There are at most so many writes of a kind. If atLeast is below that number, measure begins with it, and does
// more only for a kind that does not reach enough.
func (s *source) measure(folder string, only *regexp.Regexp, atLeast, objects int) ([]result, error) {
	dir, err := os.MkdirTemp("", "coverage")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	test := filepath.Join(dir, "validation.test")
	packages := strings.Join(slices.Sorted(maps.Keys(s.packages)), ",")
	if _, err := output(folder, "go", "test", "-c", "-cover", "-coverpkg", packages, "-o", test, "."); err != nil {
		return nil, err
	}
	// One object has few differences, or none.
	names, _ := output(folder, test, "-test.v", "-test.run", "^TestStrategies$", "-objects", "1")
	kinds := groups(regexp.MustCompile(`(?m)^ +--- \w+: TestStrategies/kinds/(\S+)`).FindAllStringSubmatch(names, -1), only)
	results := make([]result, len(kinds))
	g := errgroup.Group{}
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, kind := range kinds {
		g.Go(func() error {
			profile := filepath.Join(dir, fmt.Sprint("profile", i))
			for n := min(atLeast, objects); ; n = min(4*n, objects) {
				_, failed := output(folder, test, "-test.run", "^TestStrategies$", "-kind", "^("+strings.Join(quoted(kind), "|")+")$",
					"-objects", fmt.Sprint(n), "-test.timeout", "0", "-test.coverprofile", profile)
				blocks, err := readProfile(profile)
				if err != nil {
					return cmp.Or(failed, err)
				}
				results[i] = s.result(kind[0], blocks)
				if n == objects || results[i].percent() >= required {
					return nil
				}
			}
		})
	}
	return results, g.Wait()
}

// groups returns the names of the kinds that match. Kinds with the same resource, such as events and events.events.k8s.io,
// are together, since the groups and versions of a kind share its validation.
func groups(found [][]string, only *regexp.Regexp) [][]string {
	kinds := map[string][]string{}
	for _, f := range found {
		resource, _, _ := strings.Cut(f[1], ".")
		kinds[resource] = append(kinds[resource], f[1])
	}
	var all [][]string
	for _, resource := range slices.Sorted(maps.Keys(kinds)) {
		slices.Sort(kinds[resource])
		if slices.ContainsFunc(kinds[resource], only.MatchString) {
			all = append(all, kinds[resource])
		}
	}
	return all
}

func quoted(names []string) []string {
	var all []string
	for _, n := range names {
		all = append(all, regexp.QuoteMeta(n))
	}
	return all
}

// output returns what a command prints.
func output(folder, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = folder
	out, err := cmd.Output()
	if failed, ok := err.(*exec.ExitError); ok {
		err = fmt.Errorf("%s: %w\n%s", name, err, failed.Stderr)
	}
	return string(out), err
}
