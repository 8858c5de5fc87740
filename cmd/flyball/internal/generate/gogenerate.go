package generate

import (
	"bytes"
	"errors"
	"fmt"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// addGoGenerate adds the commands in go:generate lines below a folder. Files that the build passes over, with constraints
// for another system for instance, may have commands for a run elsewhere.
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
		case entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_"):
			return nil
		}
		commands, isBuilt, err := goGenerateCommands(path)
		if err != nil {
			return err
		}
		for _, words := range commands {
			switch options, ok := optionsOf(program(words)); {
			case !isBuilt:
				if ok || mayGenerate(words, false) {
					c.setUnseen("%s runs %q, which go generate passes over here", path, strings.Join(words, " "))
				}
			case !ok:
				c.addUnseen(path, words, false)
			default:
				if err := c.add(path, filepath.Dir(path), options); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// generateContext has the build tag of go generate.
var generateContext = func() build.Context {
	context := build.Default
	context.BuildTags = append(slices.Clone(context.BuildTags), "generate")
	return context
}()

// isModule reports whether a folder contains a separate module. Its packages do not belong to the project.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// goGenerate is the beginning of a go:generate line in Go source. A space or a tab follows.
var goGenerate = []byte("//go:generate")

// goGenerateCommands returns the commands in the go:generate lines of a file, as words, and whether the file is built, so
// that go generate runs them.
func goGenerateCommands(path string) (commands [][]string, isBuilt bool, err error) {
	content, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(content, goGenerate) {
		return nil, false, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.PackageClauseOnly)
	if err != nil {
		return nil, false, nil // go generate passes over the file
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, false, err
	}
	if isBuilt, err = generateContext.MatchFile(dir, filepath.Base(path)); err != nil {
		isBuilt = false // as with a constraint that is invalid
	}
	variables := map[string]string{"GOFILE": filepath.Base(path), "GOPACKAGE": file.Name.Name, "DOLLAR": "$", "PWD": dir}
	shorthands := map[string][]string{}
	number := 0
	for line := range bytes.Lines(content) {
		number++
		rest, ok := bytes.CutPrefix(line, goGenerate)
		if !ok || len(rest) == 0 || rest[0] != ' ' && rest[0] != '\t' {
			continue
		}
		if isBuilt && !bytes.HasSuffix(rest, []byte("\n")) {
			return nil, false, fmt.Errorf("%s:%d: the go:generate line ends without a newline, where go generate fails", path, number)
		}
		variables["GOLINE"] = strconv.Itoa(number)
		words := goGenerateWords(string(rest), shorthands, variables)
		switch {
		case len(words) > 1 && words[0] == "-command":
			shorthands[words[1]] = words[2:]
		case len(words) > 0:
			commands = append(commands, words)
		}
	}
	return commands, isBuilt, nil
}

// goGenerateWords splits the rest of a go:generate line, which no shell reads: a word that begins with a quotation mark
// is a Go string, a shorthand stands for the words of its -command line, and variables are expanded.
func goGenerateWords(line string, shorthands map[string][]string, variables map[string]string) (words []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " \t") {
		end := strings.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		word := line[:end]
		if quoted, err := strconv.QuotedPrefix(line); err == nil && line[0] == '"' {
			word, _ = strconv.Unquote(quoted) // it is quoted
			end = len(quoted)
		}
		words, line = append(words, word), line[end:]
	}
	if len(words) > 0 && shorthands[words[0]] != nil {
		words = slices.Concat(shorthands[words[0]], words[1:])
	}
	for i, word := range words {
		words[i] = os.Expand(word, func(name string) string {
			if value, ok := variables[name]; ok {
				return value
			}
			if value, ok := os.LookupEnv(name); ok {
				return value
			}
			return unknown // the go command, or whoever runs it, may set it
		})
	}
	return words
}
