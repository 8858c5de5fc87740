// Package kubeflags defines the flags of kube-apiserver, and converts them to the options of a control plane. The
// stand-in for kube-apiserver and envtest environments accept these flags.
package kubeflags

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// flagTable lists the flags of kube-apiserver 1.37, one per line: NAME|TYPE|DEFAULT|USAGE. Flags without a usage are
// accepted and have no effect.
//
//go:embed flags.txt
var flagTable string

// Add adds kube-apiserver's flags. They have the same types, so that an invalid value gives the same error.
func Add(fs *pflag.FlagSet) {
	for line := range strings.Lines(flagTable) {
		fields := append(strings.SplitN(strings.TrimSpace(line), "|", 4), "", "", "")
		name, kind, value, usage := fields[0], fields[1], fields[2], fields[3]
		if usage == "" {
			usage = "accepted, without an effect"
		}
		if err := addFlag(fs, name, kind, value, usage); err != nil {
			panic(fmt.Sprintf("the default of --%s: %v", name, err)) // the table is wrong
		}
	}
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
}

// addFlag adds a flag with a default. An empty default is the zero value.
func addFlag(fs *pflag.FlagSet, name, kind, value, usage string) (err error) {
	switch kind {
	case "bool":
		fs.Bool(name, value == "true", usage)
	case "string":
		fs.String(name, value, usage)
	case "strings":
		fs.StringSlice(name, strings.FieldsFunc(value, func(r rune) bool { return r == ',' }), usage)
	case "stringArray":
		fs.StringArray(name, nil, usage)
	case "int":
		n := 0
		if value != "" {
			n, err = strconv.Atoi(value)
		}
		fs.Int(name, n, usage)
	case "float", "float32":
		f := 0.0
		if value != "" {
			f, err = strconv.ParseFloat(value, 64)
		}
		fs.Float64(name, f, usage)
	case "duration":
		var d time.Duration
		if value != "" {
			d, err = time.ParseDuration(value)
		}
		fs.Duration(name, d, usage)
	case "ip":
		fs.IP(name, net.ParseIP(value), usage)
	case "int32Slice":
		fs.Int32Slice(name, nil, usage)
	default:
		fs.Var(&textValue{kind: kind, text: value}, name, usage)
	}
	return err
}

// textValue is the value of a flag with a type that pflag lacks. Repeated flags append to the first value.
type textValue struct {
	kind, text string
	changed    bool
}

func (v *textValue) String() string { return v.text }
func (v *textValue) Type() string   { return v.kind }

// Set implements [pflag.Value].
func (v *textValue) Set(text string) error {
	var err error
	switch v.kind {
	case "mapStringString", "stringToString":
		_, err = Pairs(text)
	case "portRange":
		_, err = utilnet.ParsePortRange(text)
	case "quantity":
		_, err = resource.ParseQuantity(text)
	}
	if err != nil {
		return err
	}
	if v.changed {
		text = v.text + "," + text
	}
	v.text, v.changed = text, true
	return nil
}

// Pairs parses comma-separated key=value pairs.
func Pairs(text string) (map[string]string, error) {
	values := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, errors.New("malformed pair, expect string=string")
		}
		values[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return values, nil
}
