package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"k8s.io/client-go/rest"

	metricsserver "flyball.dev/ctrl/metrics/server"
)

// contentSecurityPolicy permits the files of the console alone, and no page around it.
const contentSecurityPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// newHandler returns the handler of all requests: first the headers, then access, then the pages.
func (c *Console) newHandler() (http.Handler, error) {
	var handler http.Handler = c.routes()
	handler = http.NewCrossOriginProtection().Handler(handler)
	if c.options.Token == "" {
		c.options.Token = newToken() // the key of the forms too
	}
	if c.options.FilterProvider == nil {
		handler = c.withToken(handler)
	} else {
		filtered, err := c.filtered(handler)
		if err != nil {
			return nil, err
		}
		handler = c.withBearer(filtered)
	}
	return c.withHeaders(handler), nil
}

func (c *Console) filtered(handler http.Handler) (http.Handler, error) {
	var provider func(*rest.Config, *http.Client) (metricsserver.Filter, error) = c.options.FilterProvider
	filter, err := provider(c.manager.GetConfig(), c.manager.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	return filter(c.manager.GetLogger().WithName("console"), handler)
}

// withHeaders sets the headers of all responses, and refuses requests for other hosts.
func (c *Console) withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer") // the URL may have the token
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if c.local && !localHost(r.Host) {
			http.Error(w, "The console is served at names of loopback only", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		if name, ok := asset(r); ok { // the page that asks for the token needs it
			serveAsset(w, r, name)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// localHost reports whether the Host of a request is loopback, so that no name of another site leads here.
func localHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// cookie is the name of the cookie. Cookies do not distinguish ports, and several consoles may be on this host.
func (c *Console) cookie() string {
	if _, port, err := net.SplitHostPort(c.listener.Addr().String()); err == nil {
		return "flyball-console-" + port
	}
	return "flyball-console"
}

// withToken lets requests with the token through. A page that is requested with the token in the URL sets a cookie.
func (c *Console) withToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if query := r.URL.Query(); query.Has("token") && r.Method == http.MethodGet {
			if !c.isToken(query.Get("token")) {
				c.refuse(w, r, http.StatusUnauthorized, "The token in the URL is not the console's. The console prints its URL when it starts.")
				return
			}
			c.setCookie(w, query.Get("token"))
			query.Del("token")
			to := *r.URL
			to.RawQuery = query.Encode()
			http.Redirect(w, r, local(to.RequestURI()), http.StatusSeeOther)
			return
		}
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if token == "" {
			if cookie, err := r.Cookie(c.cookie()); err == nil {
				token = cookie.Value
			}
		}
		if !c.isToken(token) {
			c.refuse(w, r, http.StatusUnauthorized, "Open the URL that the console printed when it started: it has the token.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (c *Console) isToken(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(c.options.Token)) == 1
}

func (c *Console) setCookie(w http.ResponseWriter, token string) {
	http.SetCookie(w, &http.Cookie{
		Name: c.cookie(), Value: token, Path: "/console", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: strings.HasPrefix(c.url, "https:"),
	})
}

// withBearer makes a bearer token of the cookie, and serves the form that asks for one.
func (c *Console) withBearer(next http.Handler) http.Handler {
	form := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimSpace(r.PostFormValue("token"))
		if r.Method != http.MethodPost || token == "" || len(token) > 4000 || strings.ContainsAny(token, " ;,\"\\\n\r\t") {
			c.page(w, r, "login", http.StatusOK, nil)
			return
		}
		c.setCookie(w, token)
		http.Redirect(w, r, "/console/", http.StatusSeeOther)
	})
	login := http.NewCrossOriginProtection().Handler(form)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/console/login" {
			login.ServeHTTP(w, r)
			return
		}
		if r.Header.Get("Authorization") == "" {
			cookie, err := r.Cookie(c.cookie())
			if err != nil {
				if wantsHTML(r) {
					http.Redirect(w, r, "/console/login", http.StatusSeeOther)
					return
				}
			} else {
				r = r.Clone(r.Context())
				r.Header.Set("Authorization", "Bearer "+cookie.Value)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// local returns a path of this server: no URL that a browser takes for another host.
func local(path string) string {
	if strings.HasPrefix(path, "/console/") && !strings.ContainsAny(path, "\\\r\n") {
		return path
	}
	return "/console/"
}

// formKey is the secret of the forms of a browser.
func (c *Console) formKey(r *http.Request) string {
	value := ""
	if cookie, err := r.Cookie(c.cookie()); err == nil {
		value = cookie.Value
	}
	mac := hmac.New(sha256.New, []byte(c.options.Token))
	mac.Write([]byte("form " + value))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// isForm reports whether a request is one of a page of this console, or of a client with a bearer token, which no other
// site can send.
func (c *Console) isForm(r *http.Request) bool {
	if _, err := r.Cookie(c.cookie()); err != nil && r.Header.Get("Authorization") != "" {
		return true
	}
	return hmac.Equal([]byte(r.PostFormValue("form")), []byte(c.formKey(r)))
}

// user names who makes a request. The filter has verified the token.
func (c *Console) user(r *http.Request) string {
	if c.options.FilterProvider == nil {
		return "the holder of the console's token"
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if parts := strings.Split(token, "."); len(parts) == 3 {
		var claims struct {
			Sub string `json:"sub"`
		}
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err == nil && json.Unmarshal(payload, &claims) == nil && claims.Sub != "" {
			return claims.Sub
		}
	}
	return "a user with a bearer token"
}
