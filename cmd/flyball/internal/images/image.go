package images

import (
	"errors"
	"fmt"
	"strings"

	"flyball.dev/cmd/flyball/internal/hostprocess"
)

// Image is an image, and the program that its containers are.
type Image struct {
	// Name is the image as pods name it. Without a tag and a digest it stands for all of them, and * matches any
	// characters.
	Name string
	// Command is the program with its first arguments.
	Command []string
	path    string // the file of the program
}

// Parse parses NAME=COMMAND. The command is split into words as by a shell, with quotes and backslashes, and nothing is
// expanded. The program must exist.
func Parse(text string) (Image, error) {
	name, command, ok := strings.Cut(text, "=")
	if !ok || name == "" || strings.ContainsAny(name, " \t") {
		return Image{}, fmt.Errorf("%q must have the form NAME=COMMAND", text)
	}
	words, err := split(command)
	if err != nil {
		return Image{}, fmt.Errorf("the command of the image %s: %w", name, err)
	}
	if len(words) == 0 {
		return Image{}, fmt.Errorf("the image %s has no command", name)
	}
	path, _, err := hostprocess.Find(words[0])
	if err != nil {
		return Image{}, fmt.Errorf("the image %s: %w", name, err)
	}
	return Image{name, words, path}, nil
}

// patterns returns the patterns of the images that the name stands for.
func (i *Image) patterns() []string {
	base := i.Name[strings.LastIndexByte(i.Name, '/')+1:] // before it, a registry may have a port
	if strings.ContainsAny(base, ":@*") {
		return []string{i.Name}
	}
	return []string{i.Name, i.Name + ":*", i.Name + "@*"}
}

// split splits a command into words.
func split(command string) (words []string, err error) {
	var word strings.Builder
	inWord := false
	quote := rune(0)
	escaped := false
	for _, c := range command {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune(`"\$`+"`", c) {
				word.WriteByte('\\')
			}
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inWord = c, true
		case quote == 0 && strings.ContainsRune(" \t\n", c):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
