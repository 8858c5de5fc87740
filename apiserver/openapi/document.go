package openapi

import (
	"crypto/sha512"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/munnerz/goautoneg"
	handlerv2 "k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
)

// document is a document in several encodings, each made on first use.
type document struct {
	formats []format
	json    func() encoded
	others  map[string]func() encoded // by media subtype
}

// encoded is an encoded document.
type encoded struct {
	body rope
	etag string // the same for all encodings, since responses vary with Accept
	made time.Time
	err  error
}

// format is an encoding together with the media type of the request.
type format struct {
	requested, mediaType string // subtypes of application/
	fromJSON             func([]byte) ([]byte, error)
}

var (
	formatJSON = format{requested: "json", mediaType: "json"}
	formatsV2  = []format{
		formatJSON,
		{"com.github.proto-openapi.spec.v2.v1.0+protobuf", "com.github.proto-openapi.spec.v2.v1.0+protobuf",
			handlerv2.ToProtoBinary},
		{"com.github.proto-openapi.spec.v2@v1.0+protobuf", "com.github.proto-openapi.spec.v2.v1.0+protobuf",
			handlerv2.ToProtoBinary},
	}
	formatsV3 = []format{
		formatJSON,
		{"com.github.proto-openapi.spec.v3.v1.0+protobuf", "com.github.proto-openapi.spec.v3.v1.0+protobuf",
			handler3.ToV3ProtoBinary},
		{"com.github.proto-openapi.spec.v3@v1.0+protobuf", "com.github.proto-openapi.spec.v3.v1.0+protobuf",
			handler3.ToV3ProtoBinary},
	}
	formatsIndex = []format{formatJSON}
)

func newDocument(formats []format, build func() (rope, error)) *document {
	d := &document{formats: formats, others: map[string]func() encoded{}}
	d.json = sync.OnceValue(func() encoded {
		body, err := build()
		sum := sha512.New()
		for _, text := range body {
			sum.Write(text.Unpack()) // a hash never fails
		}
		return encoded{body, strings.ToUpper(hex.EncodeToString(sum.Sum(nil))), time.Now(), err}
	})
	for _, f := range formats {
		if f.fromJSON != nil && d.others[f.mediaType] == nil {
			d.others[f.mediaType] = sync.OnceValue(func() encoded {
				c := d.json()
				if c.err == nil {
					var body []byte
					body, c.err = f.fromJSON(c.body.bytes())
					c.body = ropeOf(body)
				}
				return c
			})
		}
	}
	return d
}

// negotiate returns the format that the client prefers.
func (d *document) negotiate(accept string) (format, bool) {
	if accept == "" {
		accept = "*/*"
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, f := range d.formats {
			if (clause.Type == "application" || clause.Type == "*") && (clause.SubType == f.requested || clause.SubType == "*") {
				return f, true
			}
		}
	}
	return format{}, false
}

// serve writes the document in an accepted encoding, 304 Not Modified if the client already has it, or 406 Not
// Acceptable.
func (d *document) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	f, ok := d.negotiate(r.Header.Get("Accept"))
	if !ok {
		http.Error(w, "only the following media types are accepted: "+d.accepted(), http.StatusNotAcceptable)
		return
	}
	content := d.json
	if f.fromJSON != nil {
		content = d.others[f.mediaType]
	}
	c := content()
	if c.err != nil {
		http.Error(w, c.err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/"+f.mediaType)
	w.Header().Set("Etag", strconv.Quote(c.etag))
	http.ServeContent(w, r, "", c.made, &ropeReader{rope: c.body})
}

// serveHashed serves a document under its hash, cacheable for ever, and redirects from an outdated
// hash.
func (d *document) serveHashed(w http.ResponseWriter, r *http.Request, name string) {
	if hash := r.URL.Query().Get("hash"); hash != "" {
		c := d.json()
		if c.err == nil && hash != c.etag {
			http.Redirect(w, r, hashedURL(name, c.etag), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	d.serve(w, r)
}

func (d *document) accepted() string {
	var names []string
	for _, f := range d.formats {
		names = append(names, "application/"+f.requested)
	}
	return strings.Join(names, ", ")
}
