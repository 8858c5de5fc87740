package openapi

import (
	"bytes"
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

// document is one document in the encodings that clients ask for, each made when it is first needed.
type document struct {
	formats []format
	content func() encoded            // as JSON
	others  map[string]func() encoded // by the subtype of their media type
}

type encoded struct {
	body []byte
	etag string // the same for all encodings, since the answer says that it varies with Accept
	err  error
}

// format is a media type that may be asked for under a name, maybe an old one.
type format struct {
	asked, answered string // subtypes of application/
	fromJSON        func([]byte) ([]byte, error)
}

var (
	formatJSON = format{asked: "json", answered: "json"}
	formatsV2  = []format{
		formatJSON,
		{"com.github.proto-openapi.spec.v2.v1.0+protobuf", "com.github.proto-openapi.spec.v2.v1.0+protobuf", handlerv2.ToProtoBinary},
		{"com.github.proto-openapi.spec.v2@v1.0+protobuf", "com.github.proto-openapi.spec.v2.v1.0+protobuf", handlerv2.ToProtoBinary},
	}
	formatsV3 = []format{
		formatJSON,
		{"com.github.proto-openapi.spec.v3.v1.0+protobuf", "com.github.proto-openapi.spec.v3.v1.0+protobuf", handler3.ToV3ProtoBinary},
		{"com.github.proto-openapi.spec.v3@v1.0+protobuf", "com.github.proto-openapi.spec.v3.v1.0+protobuf", handler3.ToV3ProtoBinary},
	}
	formatsIndex = []format{formatJSON}
)

func newDocument(formats []format, build func() ([]byte, error)) *document {
	d := &document{formats: formats, others: map[string]func() encoded{}}
	d.content = sync.OnceValue(func() encoded {
		body, err := build()
		sum := sha512.Sum512(body)
		return encoded{body, strings.ToUpper(hex.EncodeToString(sum[:])), err}
	})
	for _, f := range formats {
		if f.fromJSON != nil && d.others[f.answered] == nil {
			d.others[f.answered] = sync.OnceValue(func() encoded {
				c := d.content()
				if c.err == nil {
					c.body, c.err = f.fromJSON(c.body)
				}
				return c
			})
		}
	}
	return d
}

// negotiate finds the format that the client likes best.
func (d *document) negotiate(accept string) (format, bool) {
	if accept == "" {
		accept = "*/*"
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, f := range d.formats {
			if (clause.Type == "application" || clause.Type == "*") && (clause.SubType == f.asked || clause.SubType == "*") {
				return f, true
			}
		}
	}
	return format{}, false
}

// serve answers in the form that the client accepts, or with 406; with 304 if the client has it.
func (d *document) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	f, ok := d.negotiate(r.Header.Get("Accept"))
	if !ok {
		http.Error(w, "only the following media types are accepted: "+d.accepted(), http.StatusNotAcceptable)
		return
	}
	content := d.content
	if f.fromJSON != nil {
		content = d.others[f.answered]
	}
	c := content()
	if c.err != nil {
		http.Error(w, c.err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/"+f.answered)
	w.Header().Set("Etag", strconv.Quote(c.etag))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.body))
}

// serveHashed lets a client that asks by the content's hash keep the answer for good, and sends one
// that asks by an old hash to the new one.
func (d *document) serveHashed(w http.ResponseWriter, r *http.Request, name string) {
	if hash := r.URL.Query().Get("hash"); hash != "" {
		c := d.content()
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
		names = append(names, "application/"+f.asked)
	}
	return strings.Join(names, ", ")
}
