package generate

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// shellCommands returns the simple commands in a shell line, as words without quotes. A word with a substitution
// contains unknown in its place.
func shellCommands(line string) (commands [][]string) {
	var words []string
	var word strings.Builder
	inWord := false
	endWord := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		if endWord(); len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == '\'' && c != '\'', quote == '"' && !strings.ContainsRune("\"\\$`", rune(c)):
			word.WriteByte(c)
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			inWord = true
		case c == '$' || c == '`':
			word.WriteString(unknown)
			inWord = true
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t':
			endWord()
		case strings.IndexByte(";&|\n()", c) >= 0:
			endCommand()
		case c == '<' || c == '>':
			endWord()
			words = append(words, redirection)
		case c == '#' && !inWord:
			endCommand()
			return commands
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	endCommand()
	return commands
}

// redirection stands for an unquoted < or >, which is not a word of a command.
const redirection = "\x00>"

// branches are the shell keywords before a command that runs conditionally.
var branches = []string{"then", "do", "else"}

// keywords may stand before a command.
var keywords = append([]string{"{", "!", "time", "exec", "env"}, branches...)

// program returns the name and the arguments of the program that a command runs. For "go run" and "go tool", it is the
// program that the go command runs.
func program(words []string) (name string, args []string) {
	for len(words) > 0 && (slices.Contains(keywords, words[0]) || isVariable(words[0])) {
		words = words[1:]
	}
	if len(words) == 0 {
		return "", nil
	}
	if path.Base(words[0]) == "go" && len(words) > 2 && (words[1] == "run" || words[1] == "tool") {
		words = words[2:]
		for len(words) > 1 && strings.HasPrefix(words[0], "-") {
			words = words[1:]
		}
	}
	name, _, _ = strings.Cut(path.Base(words[0]), "@")
	return name, words[1:]
}

// isVariable reports whether a word before a command sets a variable.
func isVariable(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// goGenerateWords splits a go:generate line, which no shell reads: a word that begins with a quotation mark is a Go
// string, and variables are expanded.
func goGenerateWords(line string) (words []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " \t") {
		if quoted, err := strconv.QuotedPrefix(line); err == nil && line[0] == '"' {
			word, _ := strconv.Unquote(quoted) // it is quoted
			words, line = append(words, word), line[len(quoted):]
			continue
		}
		word, rest, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
		words, line = append(words, strings.ReplaceAll(word, "$", unknown)), rest
	}
	return words
}
