package generate

import (
	"path"
	"slices"
	"strings"
)

// shellCommands returns the simple commands in a shell line, as words without quotes. A word with a substitution
// contains unknown in its place. With braces, the shell expands them, as bash does.
func shellCommands(line string, braces bool) (commands [][]string) {
	var words []string
	var word strings.Builder
	inWord := false
	endWord := func() {
		if inWord {
			words = append(words, expandBraces(word.String())...)
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
		case c == '\\' && i+1 < len(line) && line[i+1] == '\n':
			i++ // the line continues
		case c == '\\' && quote == '"' && i+1 < len(line) && !strings.ContainsRune("\"\\$`", rune(line[i+1])):
			word.WriteByte(c)
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
		case c == '<' || c == '>' || c == '&' && strings.HasPrefix(line[i+1:], ">"):
			endWord()
			words = append(words, redirection)
			if i+1 < len(line) && strings.IndexByte("&>", line[i+1]) >= 0 {
				i++
			}
		case strings.IndexByte(";&|\n()", c) >= 0:
			endCommand()
		case c == '#' && !inWord:
			endCommand()
			return commands
		case braces && strings.IndexByte("{,}", c) >= 0:
			word.WriteByte(map[byte]byte{'{': openBrace, ',': comma, '}': closeBrace}[c])
			inWord = true
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

// These bytes stand for unquoted braces and commas in a word, until the braces are expanded.
const openBrace, comma, closeBrace = '\x01', '\x02', '\x03'

// literal replaces these bytes.
var literal = strings.NewReplacer("\x01", "{", "\x02", ",", "\x03", "}")

// expandBraces returns the words for a word with lists in braces, such as a{b,c}.
func expandBraces(word string) (words []string) {
	for open := range len(word) {
		if word[open] != openBrace {
			continue
		}
		depth, cuts := 0, []int{open}
		for i := open; i < len(word); i++ {
			switch word[i] {
			case openBrace:
				depth++
			case closeBrace:
				depth--
			}
			if depth == 0 {
				cuts = append(cuts, i)
				break
			}
			if depth == 1 && word[i] == comma {
				cuts = append(cuts, i)
			}
		}
		if last := cuts[len(cuts)-1]; depth == 0 && len(cuts) > 2 {
			for i, cut := range cuts[1:] {
				words = append(words, expandBraces(word[:open]+word[cuts[i]+1:cut]+word[last+1:])...)
			}
			return words
		}
	}
	return []string{literal.Replace(word)}
}

// branches are the shell keywords before a command that runs conditionally.
var branches = []string{"then", "do", "else"}

// keywords may stand before a command.
var keywords = append([]string{"{", "!", "time", "exec", "env"}, branches...)

// program returns the name and the arguments of the program that a command runs. For "go run" and "go tool", it is the
// program that the go command runs.
func program(words []string) (name string, args []string) {
	if words = simple(words); len(words) == 0 {
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

// simple returns a command without the keywords and variables before it.
func simple(words []string) []string {
	for len(words) > 0 && (slices.Contains(keywords, words[0]) || isVariable(words[0])) {
		words = words[1:]
	}
	return words
}

// isVariable reports whether a word before a command sets a variable.
func isVariable(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
