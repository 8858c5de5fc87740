package schema

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// exceptions.txt lists properties that the Go declarations of types and fields lack. A line is
//
//	MODEL[.FIELD] PROPERTY...
//
// where MODEL is the part of a model's name from the group on, such as core.v1.Pod, and a PROPERTY is one of
//
//	atomic       a struct, map or list with the same managers for all its parts
//	granular     a struct or map with managers for each field
//	set          a list of distinct values
//	keys:A,B     a list of elements with these fields as keys
//	optional     optional although Go always encodes it
//	required     required although Go may omit it
//	default:JSON the default of the field
//
//go:embed exceptions.txt
var exceptionsText string

// exception holds the properties of one line.
type exception struct {
	mapType  string
	listType string
	listKeys []string
	required *bool
	fallback any
}

// typeExceptions holds the lines of one type and its fields.
type typeExceptions struct {
	exception
	fields map[string]exception
}

var exceptions = sync.OnceValue(func() map[string]*typeExceptions { return parseExceptions(exceptionsText) })

// prefixes are the prefixes of models' names that the table omits.
var prefixes = []string{"io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apiextensions-apiserver.pkg.apis.", "io.k8s.kube-aggregator.pkg.apis."}

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

// parseExceptions parses the table. It panics on an invalid line, because the table is part of the program.
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
			e.fields[parts[3]] = parseProperties(words[1:])
		} else {
			e.exception = parseProperties(words[1:])
		}
	}
	return table
}

func parseProperties(properties []string) exception {
	var e exception
	for _, property := range properties {
		name, value, _ := strings.Cut(property, ":")
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
				panic(fmt.Sprintf("exceptions: %s: %v", property, err))
			}
		default:
			panic("exceptions: " + property)
		}
	}
	return e
}
