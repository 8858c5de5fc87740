package generate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"flyball.dev/cmd/flyball/internal/projectfile"
)

// commands are the generator runs of a project: the options of each run of controller-gen.
type commands struct {
	runs [][]string
	// doubt is the reason why other options may be needed, or "".
	doubt string
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
			return ofProjectFile(lines), nil
		}
	}
	makefile, err := readMakefile(".")
	if err != nil {
		return commands{}, err
	}
	c := ofMakefile(makefile)
	if err := c.addGoGenerate("."); err != nil {
		return commands{}, err
	}
	if len(c.runs) == 0 && c.doubt == "" && project != nil && project.Runtime() == projectfile.RuntimeFlyball {
		c.runs, err = defaultRuns()
	}
	c.merge()
	return c, err
}

// ofProjectFile returns the commands for lines of options.
func ofProjectFile(lines []string) (c commands) {
	for _, line := range lines {
		for _, words := range shellCommands(line) {
			c.add(projectfile.Name, words)
		}
	}
	return c
}

// ofMakefile returns the commands of the targets manifests and generate and their prerequisites. If these targets have
// none, it returns the commands of all targets.
func ofMakefile(m *makefile) (c commands) {
	for _, targets := range [][]string{{"manifests", "generate"}, m.order} {
		for _, rule := range m.closure(targets...) {
			c.addRecipe(m, rule)
		}
		if len(c.runs) > 0 || c.doubt != "" {
			break
		}
	}
	return c
}

// addRecipe adds the commands in the recipe of a rule.
func (c *commands) addRecipe(m *makefile, rule *makeRule) {
	var folders []string // that this recipe has written to
	for _, line := range rule.recipe {
		elsewhere := false
		for _, words := range shellCommands(strings.TrimLeft(m.expand(line), "@-+ ")) {
			name, args := program(words)
			if name == "cd" {
				elsewhere = true
			}
			options, ok := optionsOf(name, args)
			switch {
			case !ok:
				c.doubtChange(name, args, folders)
			case elsewhere:
				c.setDoubt("the Makefile runs %s in another folder", name)
			case rule.conditional || slices.Contains(branches, words[0]):
				c.setDoubt("the Makefile runs %s on a condition or in a loop", name)
			default:
				c.add("the Makefile", options)
				folders = append(folders, outputFolders(options)...)
			}
		}
	}
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
		if name == "controller-gen" || !strings.HasPrefix(arg, "-") { // flags of "flyball generate" are for its output
			options = append(options, arg)
		}
	}
	return options, name == "flyball" || len(options) > 0
}

// harmless are programs that do not change the files in their arguments, or only remove them, so that they are generated
// again.
var harmless = []string{"cp", "echo", "printf", "mkdir", "rm", "ls", "test", "[", "cat", "diff", "git"}

// doubtChange records a command that may change generated files in some folders.
func (c *commands) doubtChange(name string, args, folders []string) {
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

func (c *commands) setDoubt(format string, args ...any) {
	if c.doubt == "" {
		c.doubt = strings.ReplaceAll(fmt.Sprintf(format, args...), unknown, "…")
	}
}

// add adds a run with some options.
func (c *commands) add(source string, options []string) {
	for _, option := range options {
		switch {
		case strings.Contains(option, unknown):
			c.setDoubt("%s has the option %q, which only make and the shell can tell", source, strings.ReplaceAll(option, unknown, "…"))
			return
		case strings.HasPrefix(option, "-"):
			c.setDoubt("%s has the flag %s of controller-gen", source, option)
			return
		}
	}
	if !slices.ContainsFunc(options, isGenerator) { // as in "flyball generate"
		defaults, err := defaultRuns()
		if err != nil || len(defaults) == 0 {
			return
		}
		options = override(defaults[0], options)
	}
	if !slices.ContainsFunc(c.runs, func(run []string) bool { return slices.Equal(run, options) }) {
		c.runs = append(c.runs, options)
	}
}

// merge merges runs with equal paths, because reading packages takes longest.
func (c *commands) merge() {
	var merged [][]string
	for _, run := range c.runs {
		i := slices.IndexFunc(merged, func(other []string) bool { return mergeable(other, run) })
		if i < 0 {
			merged = append(merged, run)
			continue
		}
		for _, option := range run {
			if optionName(option) != "paths" {
				merged[i] = append(slices.Clip(merged[i]), option)
			}
		}
	}
	c.runs = merged
}

// mergeable reports whether one run with the options of both has the same effect as two runs.
func mergeable(a, b []string) bool {
	for _, option := range slices.Concat(a, b) {
		if name, rest, _ := strings.Cut(strings.TrimPrefix(option, "+"), ":"); name == "output" {
			if rule, _, _ := strings.Cut(rest, ":"); generators[rule] == nil {
				return false // it is for all generators of its run
			}
		}
	}
	return pathsOf(a) == pathsOf(b) && !slices.ContainsFunc(a, func(option string) bool {
		return isGenerator(option) && slices.ContainsFunc(b, func(other string) bool { return optionName(option) == optionName(other) })
	})
}

func isGenerator(option string) bool { return generators[optionName(option)] != nil }

// goGenerate is the prefix of a go:generate line in Go source.
var goGenerate = []byte("//go:generate ")

// addGoGenerate adds the commands in go:generate lines below a folder.
func (c *commands) addGoGenerate(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case errors.Is(err, fs.ErrPermission):
			return nil // as data that containers have left
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
			slices.Contains([]string{"vendor", "testdata", "node_modules"}, name) || isModule(path)):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(content, goGenerate) {
			return err
		}
		for line := range bytes.Lines(content) {
			command, ok := bytes.CutPrefix(line, goGenerate)
			if !ok {
				continue
			}
			if options, ok := optionsOf(program(goGenerateWords(string(command)))); ok {
				c.add(path, relocate(options, filepath.Dir(path)))
			}
		}
		return nil
	})
}

// isModule reports whether a folder contains a separate module. Its packages do not belong to the project.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// pathKeys are the prefixes of path-valued parts of options.
var pathKeys = []string{"config=", "code=", "dir=", "headerFile=", "manifests="}

// relocate converts options of another folder to equivalent options of the current folder.
func relocate(options []string, dir string) []string {
	if dir == "." {
		return options
	}
	join := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		joined := filepath.ToSlash(filepath.Join(dir, path))
		return "./" + strings.TrimPrefix(joined, "./")
	}
	relocated := make([]string, len(options))
	for i, option := range options {
		if list, ok := strings.CutPrefix(option, "paths="); ok {
			paths := strings.FieldsFunc(strings.Trim(list, "{}"), func(r rune) bool { return strings.ContainsRune(";, ", r) })
			for j, p := range paths {
				if strings.HasPrefix(p, ".") {
					paths[j] = join(p)
				}
			}
			relocated[i] = "paths={" + strings.Join(paths, ",") + "}"
			continue
		}
		parts := strings.Split(option, ",")
		for j, part := range parts {
			for _, key := range pathKeys {
				if at := strings.LastIndex(part, key); at == 0 || at > 0 && part[at-1] == ':' {
					parts[j] = part[:at] + key + join(strings.Trim(part[at+len(key):], `"`))
				}
			}
		}
		relocated[i] = strings.Join(parts, ",")
	}
	if pathsOf(options) == "." { // the package of the line
		relocated = append(relocated, "paths="+join("."))
	}
	return relocated
}

// outputFolders returns the output folders for the manifests of some options.
func outputFolders(options []string) (folders []string) {
	for _, name := range []string{"crd", "rbac", "webhook"} {
		if folder := outputFolder(options, name); folder != "" {
			folders = append(folders, folder)
		}
	}
	return folders
}

// outputFolder returns the output folder for the manifests of a generator. It returns "" if the options lack the
// generator or write nothing.
func outputFolder(options []string, generator string) string {
	if !slices.ContainsFunc(options, func(option string) bool { return optionName(option) == generator }) {
		return ""
	}
	folder, own := "config/"+generator, false
	for _, option := range options {
		rule, ok := strings.CutPrefix(option, "output:"+generator+":")
		if !ok {
			if rule, ok = strings.CutPrefix(option, "output:"); !ok || own || generators[optionName(rule)] != nil {
				continue
			}
		} else {
			own = true
		}
		_, path, _ := strings.Cut(rule, "=")
		path, _, _ = strings.Cut(path, ",")
		folder = strings.Trim(path, `"`)
	}
	if folder == "" {
		return ""
	}
	return filepath.ToSlash(filepath.Clean(folder))
}
