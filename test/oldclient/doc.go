// Package oldclient tests the API server and its streams with client-go 0.20, of the year 2021, with which older operators are
// built. It speaks SPDY in the versions of that time, and knows no WebSockets. The tests build and start flyball.
package oldclient
