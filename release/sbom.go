package main

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"io"
	"runtime/debug"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes the modules that are linked into a program, which the go command has recorded in it, as a
// CycloneDX document.
func (p *program) writeSBOM(w io.Writer) error {
	application := component(&p.info.Main)
	application.Type = cyclonedx.ComponentTypeApplication
	components := []cyclonedx.Component{{
		Type: cyclonedx.ComponentTypeLibrary, BOMRef: "pkg:golang/std", Name: "std", Version: p.info.GoVersion,
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(p.info.GoVersion, "go"),
	}}
	for _, m := range p.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, component(m))
	}
	refs := make([]string, len(components))
	for i, c := range components {
		refs[i] = c.BOMRef
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: p.time.Format(time.RFC3339), Component: &application}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: application.BOMRef, Dependencies: &refs}}
	return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// component returns the component of a module.
func component(m *debug.Module) cyclonedx.Component {
	url := "pkg:golang/" + m.Path + "@" + m.Version
	c := cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, PackageURL: url, Name: m.Path, Version: cmp.Or(m.Version, "(devel)")}
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c
}
