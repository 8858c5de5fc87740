// Coverage prints how much of Kubernetes's validation of each kind the generated objects reach. A kind's validation are
// the functions in pkg/apis/*/validation that ran for its objects, and the functions that these mention.
//
//	go run -C test/mirror/validation ./coverage -objects 30000
//
// With -missing it prints the statements that were not reached, too.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const module = "k8s.io/kubernetes"

func main() {
	objects := flag.Int("objects", 30000, "the number of writes of each kind")
	only := flag.String("kind", "", "a regular expression of the names of kinds")
	missing := flag.Bool("missing", false, "print the statements that were not reached")
	flag.Parse()
	log.SetFlags(0)
	if err := run(*objects, regexp.MustCompile(*only), *missing); err != nil {
		log.Fatal(err)
	}
}

func run(objects int, only *regexp.Regexp, missing bool) error {
	root, err := output("go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	src, err := readSource(strings.TrimSpace(root))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "coverage")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	test, profile := filepath.Join(dir, "validation.test"), filepath.Join(dir, "profile")
	packages := strings.Join(slices.Sorted(maps.Keys(src.packages)), ",")
	if _, err := output("go", "test", "-c", "-cover", "-coverpkg", packages, "-o", test, "."); err != nil {
		return err
	}
	names, _ := output(test, "-test.v", "-test.run", "^TestStrategies$", "-objects", "1") // one object has few differences, or none
	for _, m := range regexp.MustCompile(`(?m)^ +--- \w+: TestStrategies/kinds/(\S+)`).FindAllStringSubmatch(names, -1) {
		kind := m[1]
		if !only.MatchString(kind) {
			continue
		}
		_, failed := output(test, "-test.run", "^TestStrategies$", "-kind", "^"+regexp.QuoteMeta(kind)+"$",
			"-objects", fmt.Sprint(objects), "-test.timeout", "0", "-test.coverprofile", profile)
		blocks, err := readProfile(profile)
		if err != nil {
			return cmp.Or(failed, err)
		}
		src.report(kind, blocks, missing)
	}
	return nil
}

// output returns what a command prints.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	out, err := cmd.Output()
	if failed, ok := err.(*exec.ExitError); ok {
		err = fmt.Errorf("%s: %w\n%s", name, err, failed.Stderr)
	}
	return string(out), err
}
