package generate

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"flyball.dev/cmd/flyball/internal/projectfile"
)

// commands are the generator runs of a project.
type commands struct {
	runs []invocation
	// doubt is the reason why other options may be needed, or "".
	doubt string
	// warning is the doubt for users, or "" if no command of the project causes it.
	warning string
	// unseen is the reason why there may be other runs, or "".
	unseen string
}

// projectCommands returns the commands of the project in the current folder: the ones in its PROJECT file, or the ones
// that its Makefile runs for the targets manifests and generate together with the ones in go:generate lines. If there
// are none, there are no runs.
func projectCommands() (commands, error) {
	project, err := projectfile.Read(".")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return commands{}, err
	}
	if err == nil {
		if lines := project.Generate(); len(lines) > 0 {
			return ofProjectFile(lines)
		}
	}
	makefile, err := readMakefile(".")
	if err != nil {
		return commands{}, err
	}
	c, err := ofMakefile(makefile)
	if err != nil {
		return commands{}, err
	}
	if err := c.addGoGenerate("."); err != nil {
		return commands{}, err
	}
	if len(c.runs) == 0 && c.doubt == "" && project != nil && project.Runtime() == projectfile.RuntimeFlyball {
		run, err := defaultRun()
		if err != nil {
			return commands{}, err
		}
		c.runs = []invocation{run}
	}
	c.merge()
	return c, nil
}

// ofProjectFile returns the commands for lines of options.
func ofProjectFile(lines []string) (c commands, err error) {
	for _, line := range lines {
		for _, words := range shellCommands(line, false) {
			if err := c.add(projectfile.Name, ".", words); err != nil {
				return commands{}, err
			}
		}
	}
	return c, nil
}

// ofMakefile returns the commands of the targets manifests and generate and their prerequisites. If these targets have
// none, it returns the commands of all targets.
func ofMakefile(m *makefile) (c commands, err error) {
	for _, rule := range m.closure("manifests", "generate") {
		if err := c.addRecipe(m, rule); err != nil {
			return commands{}, err
		}
	}
	if len(c.runs) > 0 || c.doubt != "" {
		others := c
		others.runs = slices.Clone(c.runs)
		for _, rule := range m.closure(m.order...) {
			if err := others.addRecipe(m, rule); err != nil || len(others.runs) > len(c.runs) || others.doubt != c.doubt {
				c.setUnseen("the Makefile runs controller-gen for other targets than manifests and generate")
			}
		}
		return c, nil
	}
	for _, rule := range m.closure(m.order...) {
		runs, unseen := len(c.runs), c.unseen
		if err := c.addRecipe(m, rule); err != nil {
			return commands{}, err
		}
		if len(c.runs) == runs {
			c.unseen = unseen // the recipe has another purpose
		}
	}
	return c, nil
}

// addRecipe adds the commands in the recipe of a rule.
func (c *commands) addRecipe(m *makefile, rule *makeRule) error {
	first := len(c.runs)
	for _, line := range rule.recipe {
		elsewhere := false
		line = m.calls(strings.TrimLeft(line, recipePrefixes))
		for _, words := range shellCommands(strings.TrimLeft(m.expand(line), recipePrefixes), m.hasBraces()) {
			name, args := program(words)
			if name == "cd" {
				elsewhere = true
			}
			options, ok := optionsOf(name, args)
			switch {
			case !ok:
				c.doubtChange(name, args, c.runs[first:])
				c.addUnseen("the Makefile", words, elsewhere)
			case elsewhere:
				c.setDoubt("the Makefile runs %s in another folder", name)
			case rule.conditional || slices.Contains(branches, words[0]):
				c.setDoubt("the Makefile runs %s on a condition or in a loop", name)
			default:
				if err := c.add("the Makefile", ".", options); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// optionsOf returns the options of a command that runs a generator.
func optionsOf(name string, args []string) (options []string, ok bool) {
	switch {
	case name == "flyball" && len(args) > 0 && args[0] == "generate":
		args = args[1:]
	case name != "controller-gen":
		return nil, false
	}
	for _, arg := range args {
		if arg == "--version" || arg == "--check" || arg == "-h" || arg == "--help" {
			return nil, false
		}
		// The other flags of "flyball generate" are for its output.
		if name == "controller-gen" || !strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "--load-build-tags") {
			options = append(options, arg)
		}
	}
	return options, name == "flyball" || len(options) > 0
}

// harmless are programs that do not change the files in their arguments, or only remove them, so that they are generated
// again.
var harmless = []string{"cp", "echo", "printf", "mkdir", "rm", "ls", "test", "[", "cat", "diff", "git"}

// doubtChange records a command that may change the manifests that some runs generate.
func (c *commands) doubtChange(name string, args []string, runs []invocation) {
	var folders []string
	for _, run := range runs {
		for _, generator := range []string{"crd", "rbac", "webhook"} {
			if folder := run.manifests(generator); folder != "" {
				folders = append(folders, folder)
			}
		}
	}
	for i, arg := range args {
		for _, folder := range folders {
			within := strings.HasPrefix(filepath.Clean(arg)+"/", folder+"/") || strings.Contains(arg, "/"+folder+"/")
			destination := name == "cp" && i == len(args)-1
			if within && (destination || !slices.Contains(harmless, name)) {
				c.setDoubt("the Makefile changes %s by %s after it is generated", arg, name)
			}
		}
	}
}

// addUnseen records a command that may run a generator, so that files of the project may be its files.
func (c *commands) addUnseen(source string, words []string, elsewhere bool) {
	if mayGenerate(words, elsewhere) {
		c.setUnseen("%s runs %q, which may run controller-gen", source, strings.ReplaceAll(strings.Join(words, " "), unknown, "…"))
	}
}

func (c *commands) setUnseen(format string, args ...any) {
	if c.unseen == "" {
		c.unseen = fmt.Sprintf(format, args...)
	}
}

func (c *commands) setDoubt(format string, args ...any) {
	if c.doubt == "" {
		c.doubt = strings.ReplaceAll(fmt.Sprintf(format, args...), unknown, "…")
	}
}

// add adds a run of controller-gen with some options in a folder.
func (c *commands) add(source, dir string, options []string) error {
	for _, option := range options {
		switch {
		case strings.Contains(option, unknown):
			c.setDoubt("%s has the option %q, which only make and the shell can tell", source, strings.ReplaceAll(option, unknown, "…"))
			return nil
		case strings.HasPrefix(option, "-"):
			c.setDoubt("%s has the flag %s of controller-gen", source, option)
			return nil
		}
	}
	run, err := parse(dir, options)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	if len(run.generators) == 0 { // as in "flyball generate"
		defaults, err := defaultRun()
		if err != nil {
			return err
		}
		run = defaults.override(run)
	}
	if !slices.ContainsFunc(c.runs, func(other invocation) bool { return reflect.DeepEqual(other, run) }) {
		c.runs = append(c.runs, run)
	}
	return nil
}

// merge merges runs where that has the same effect, because reading packages takes longest.
func (c *commands) merge() {
	var merged []invocation
next:
	for _, run := range c.runs {
		for i := range merged {
			if merged[i].merge(run) {
				continue next
			}
		}
		merged = append(merged, run)
	}
	c.runs = merged
}

// complete returns the runs for some options. If the options name a generator, there is a single run with these
// options. Otherwise the runs come from the project in the current folder, with the paths and outputs of the options.
func complete(options []string) (commands, error) {
	given, err := parse(".", options)
	if err != nil {
		return commands{}, err
	}
	if len(given.generators) > 0 {
		return commands{runs: []invocation{given}}, nil
	}
	c, err := projectCommands()
	if err != nil {
		return commands{}, err
	}
	c.warning = c.doubt
	if len(c.runs) == 0 {
		if c.doubt != "" {
			c.warning += ": Kubebuilder's defaults apply"
		} else {
			c.doubt = "neither the Makefile nor a go:generate line runs controller-gen or flyball generate"
		}
		run, err := defaultRun()
		if err != nil {
			return commands{}, err
		}
		c.runs = []invocation{run}
	}
	var all invocation
	for i, run := range c.runs {
		if replaced := run.pathsBeyond(); len(given.paths) > 0 && len(replaced) > 0 {
			c.setUnseen("the paths %s of the project are replaced", strings.Join(replaced, " "))
		}
		c.runs[i] = run.override(given)
		all.generators = append(all.generators, run.generators...)
	}
	return c, all.checkOutputs(given.outputs)
}
