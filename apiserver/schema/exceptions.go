package schema

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// exceptions.txt says of types and fields what their Go declarations do not. A line is
//
//	MODEL[.FIELD] FACT...
//
// where MODEL is a model's name without what stands before its group, such as core.v1.Pod, and a FACT
// is one of
//
//	atomic       a struct, map or list that has one owner as a whole
//	granular     a struct or map whose fields have owners of their own
//	set          a list of distinct values
//	keys:A,B     a list of elements told apart by these fields
//	optional     may be left out although Go always writes it
//	required     must be there although Go may leave it out
//	default:JSON what the field is when it is left out
//
//go:embed exceptions.txt
var exceptionsText string

// exception is what one line says.
type exception struct {
	mapType  string
	listType string
	listKeys []string
	required *bool
	fallback any
}

// typeExceptions are the lines of one type and its fields.
type typeExceptions struct {
	exception
	fields map[string]exception
}

var exceptions = sync.OnceValue(func() map[string]*typeExceptions { return parseExceptions(exceptionsText) })

// prefixes are what the table leaves out of models' names.
var prefixes = []string{"io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apiextensions-apiserver.pkg.apis."}

func exceptionsOf(model string) *typeExceptions {
	for _, prefix := range prefixes {
		if short, ok := strings.CutPrefix(model, prefix); ok {
			if e, ok := exceptions()[short]; ok {
				return e
			}
		}
	}
	return &typeExceptions{}
}

// parseExceptions panics on a line that it does not understand: the table is part of the program.
func parseExceptions(text string) map[string]*typeExceptions {
	table := map[string]*typeExceptions{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		parts := strings.SplitN(words[0], ".", 4) // group, version, type, field
		model := strings.Join(parts[:3], ".")
		e := table[model]
		if e == nil {
			e = &typeExceptions{fields: map[string]exception{}}
			table[model] = e
		}
		if len(parts) == 4 {
			e.fields[parts[3]] = parseFacts(words[1:])
		} else {
			e.exception = parseFacts(words[1:])
		}
	}
	return table
}

func parseFacts(facts []string) exception {
	var e exception
	for _, fact := range facts {
		name, value, _ := strings.Cut(fact, ":")
		switch name {
		case "atomic", "granular":
			e.mapType = name
		case "set":
			e.listType = name
		case "keys":
			e.listType, e.listKeys = "map", strings.Split(value, ",")
		case "optional", "required":
			e.required = new(name == "required")
		case "default":
			if err := json.Unmarshal([]byte(value), &e.fallback); err != nil {
				panic(fmt.Sprintf("exceptions: %s: %v", fact, err))
			}
		default:
			panic("exceptions: " + fact)
		}
	}
	return e
}
