package generate

import (
	"path"
	"slices"
	"strings"
)

// builtins are the words of the shell that run no program, and the words before a condition.
var builtins = strings.Fields(`: [ [[ } break case cd continue done do elif else esac exit export false fi for if local popd printf pushd pwd
	read readonly return set shift then trap true type ulimit umask unset until wait while echo test`)

// tools are the usual programs of recipes that run no other program which a recipe could name.
var tools = strings.Fields(`addlicense awk basename buf cat chmod cmp cp crd-ref-docs curl cut cmp date diff dirname docker gci git gofmt
	gofumpt goimports golangci-lint grep egrep fgrep gunzip gzip head helm helm-docs install jq kind kubectl kustomize ln ls mkdir mktemp
	mockgen mv openapi-gen operator-sdk protoc readlink realpath rm rmdir sed setup-envtest sha256sum sleep sort stringer tail tar tee
	touch tr uname uniq unzip wc wget which yq
	client-gen conversion-gen deepcopy-gen defaulter-gen informer-gen lister-gen register-gen`)

// goCommands are the commands of the go command that run no program of the project's choice.
var goCommands = []string{"build", "clean", "doc", "env", "fmt", "get", "help", "install", "list", "mod", "test", "version", "vet", "work"}

// mayGenerate reports whether a command that runs no generator itself may run one, as a script or another make does.
// Within the project, go generate runs what addGoGenerate reads.
func mayGenerate(words []string, elsewhere bool) bool {
	for len(words) > 0 && slices.Contains([]string{"if", "elif", "while", "until"}, words[0]) {
		words = words[1:]
	}
	words = simple(words)
	name, args := program(words)
	switch {
	case name == "" || name == "controller-gen" || name == "flyball":
		return false // optionsOf has seen its options
	case name == "docker" && slices.Contains(args, "run"):
		return true
	case name == "go" && len(args) > 0 && args[0] == "generate":
		return elsewhere || len(args) > 1 && !slices.Equal(args[1:], []string{"./..."})
	case name == "go":
		return len(args) > 0 && !slices.Contains(goCommands, args[0])
	case strings.Contains(words[0], "/"):
		return path.Base(path.Dir(words[0])) != "bin" || !slices.Contains(tools, name)
	}
	return !slices.Contains(builtins, name) && !slices.Contains(tools, name)
}
