package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/describe"
)

// TestEveryKubectlCommandHasAScript compares the scripts with the commands of kubectl.
func TestEveryKubectlCommandHasAScript(t *testing.T) {
	lines := scriptLines(t)
	all := leaves(cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{Arguments: []string{"kubectl"}, ConfigFlags: genericclioptions.NewConfigFlags(false)}), nil)
	if len(all) < 70 {
		t.Fatalf("kubectl has only %d commands", len(all))
	}
	for _, path := range all {
		if run := strings.Join(path, " +") + `( |$)`; !runs(lines, run) {
			t.Errorf("no script runs kubectl %s", strings.Join(path, " "))
		}
	}
}

// scriptLines returns the lines of all scripts.
func scriptLines(t *testing.T) (lines []string) {
	t.Helper()
	files, err := filepath.Glob("scripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Split(string(text), "\n")...)
	}
	return lines
}

// runs reports whether a line of a script runs kubectl with arguments that begin with a pattern.
func runs(lines []string, args string) bool {
	return slices.ContainsFunc(lines, regexp.MustCompile(`^(\[\S+\] )?(! |start \S+ |exec xargs )?kubectl( -\S+ \S+)* +`+args).MatchString)
}

// TestEveryFormHasAScript compares the scripts with the ways in which the commands of kubectl are used.
func TestEveryFormHasAScript(t *testing.T) {
	lines := scriptLines(t)
	forms := map[string][]string{
		`apply .*`:          {`-f`, `-k`, `--server-side`, `--force-conflicts`, `--prune .*--prune-allowlist`, `--prune .*--applyset`, `--dry-run=server`, `--validate=warn`},
		`diff .*`:           {`-f`, `--server-side`},
		`patch .*`:          {`[^-]\S+ -p`, `--type[ =]merge`, `--type[ =]json`, `--subresource[ =]`},
		`scale .*`:          {`--replicas`, `--current-replicas`},
		`autoscale .*`:      {`--cpu`},
		`rollout status `:   {`deployment`, `statefulset`, `daemonset`},
		`rollout undo `:     {`deployment`, `statefulset`, `daemonset`, `.*--to-revision`},
		`rollout restart `:  {`deployment`, `statefulset`, `daemonset`},
		`rollout history `:  {`deployment`, `statefulset`, `daemonset`, `.*--revision`},
		`set env .*`:        {`--from=configmap`, `--list`, `[A-Z]-$`},
		`delete .*`:         {`--cascade=orphan`, `--cascade=foreground`, `--cascade=background`, `-f`, `-k`, `-l`, `--all`, `--now`, `--force`, `--grace-period`, `--dry-run`, `--ignore-not-found`},
		`wait .*`:           {`--for[ =]condition`, `--for[ =]jsonpath`, `--for[ =]delete`, `--for[ =]create`},
		`get .*`:            {`--watch`, `--show-labels`, `-L`, `--sort-by`, `--field-selector`, `--chunk-size`, `--subresource`, `--raw`, `--show-managed-fields`},
		`logs .*`:           {`-f`, `--previous`, `--since=`, `--since-time`, `--tail`, `--timestamps`, `--all-containers`, `--prefix`, `-l`},
		`exec .*`:           {`-i `, `-it `},
		`cp `:               {`\S+:\S+ [^:]+$`, `[^: ]+ \S+:\S+`},
		`debug `:            {`node/`, `.*--copy-to`, `.*--image=.*-c `},
		`run .*`:            {`--restart=Never`, `--rm`, `--expose`, `--overrides`, `--env`},
		`expose `:           {`deployment`, `pod`},
		`port-forward `:     {`pod/`, `service/`},
		`taint node.*`:      {`=\S+:NoSchedule$`, `--overwrite`, `-$`},
		`drain .*`:          {`--ignore-daemonsets`, `--delete-emptydir-data`, `--force`, `--timeout`},
		`auth can-i .*`:     {`--as`, `--list`},
		`top `:              {`node`, `pod .*--containers`},
		`events .*`:         {`--for`, `--types`, `--watch`, `-A`},
		`explain .*`:        {`--recursive`, `--api-version`},
		`create job .*`:     {`--image`, `--from=cronjob`},
		`create secret tls`: {` `},
	}
	for _, format := range get.NewGetPrintFlags().AllowedFormats() {
		forms[`get .*`] = append(forms[`get .*`], `-o '?`+format+`( |=|$)`)
	}
	for command, list := range forms {
		for _, form := range list {
			if !runs(lines, command+form) {
				t.Errorf("no script runs kubectl %s%s", command, form)
			}
		}
	}
}

// TestEveryKindIsDescribed compares the script of kubectl describe with the kinds for which kubectl has a description.
func TestEveryKindIsDescribed(t *testing.T) {
	text, err := os.ReadFile("scripts/kubectl_describe.txtar")
	if err != nil {
		t.Fatal(err)
	}
	lines, n := strings.Split(string(text), "\n"), 0
	for kind := range scheme.Scheme.AllKnownTypes() {
		if _, ok := describe.DescriberFor(kind.GroupKind(), &rest.Config{}); ok {
			n++
			if !runs(lines, `describe `+strings.ToLower(kind.Kind)+`( |$)`) {
				t.Errorf("%v is not described", kind.GroupKind())
			}
		}
	}
	if n < 35 {
		t.Errorf("kubectl describes only %d kinds", n)
	}
}

// leaves returns the paths of the commands without subcommands.
func leaves(c *cobra.Command, path []string) (all [][]string) {
	found := false
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "options" {
			found = true
			all = append(all, leaves(sub, append(path[:len(path):len(path)], sub.Name()))...)
		}
	}
	if !found && len(path) > 0 {
		all = append(all, path)
	}
	return all
}
