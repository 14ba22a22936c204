package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// client is one user of the workspace: connection, clients and counts of its own.
type client struct {
	name     string
	recorder *recorder
	typed    kubernetes.Interface
	dynamic  dynamic.Interface
}

// newClient makes the clients for a server's URL.
// isHidden: requests are made within client-go and counted on the wire, where no repetition is known of; an answer that
// client-go does not repeat by itself counts as failed.
func newClient(base *rest.Config, r *recorder, name, host string, isHidden bool) (*client, error) {
	config := rest.CopyConfig(base)
	config.Host = host
	config.UserAgent = "clients/" + strings.ReplaceAll(name, " ", "-")
	// What slows requests down here is the server, nothing else.
	config.QPS = -1
	// With a dialer of its own, client-go gives it connections of its own, as another process would have.
	config.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &transport{next: next, client: name, recorder: r, isHidden: isHidden}
	})
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &client{name: name, recorder: r, typed: typed, dynamic: untyped}, nil
}

// call makes one request and records its outcome.
func (c *client) call(verb, resource string, request func() error) error {
	began := time.Now()
	err := request()
	c.recorder.requested(c.name, verb, resource, began, err)
	return err
}

// transport counts requests as they are on the wire, each repetition by itself.
type transport struct {
	next     http.RoundTripper
	client   string
	recorder *recorder
	isHidden bool
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	verb, _ := describe(request)
	response, err := t.next.RoundTrip(request)
	status := "error"
	if err == nil {
		status = strconv.Itoa(response.StatusCode)
	}
	t.recorder.attempted(t.client, verb, status)
	if t.isHidden {
		t.judge(request, began, response, err)
	}
	return response, err
}

// judge takes the place of the caller, who is inside client-go.
func (t *transport) judge(request *http.Request, began time.Time, response *http.Response, err error) {
	verb, resource := describe(request)
	switch {
	case request.Context().Err() != nil:
		// Given up by the client itself, because it ends.
	case err != nil:
		t.recorder.requested(t.client, verb, resource, began, err)
	case response.StatusCode < 400:
		t.recorder.requested(t.client, verb, resource, began, nil)
	case response.Header.Get("Retry-After") != "" && (response.StatusCode == 429 || response.StatusCode >= 500):
		// client-go comes back by itself.
	case response.StatusCode == http.StatusNotFound && resource == "leases", response.StatusCode == http.StatusConflict:
		// How a lease begins, and how its holder is found to be another.
	default:
		t.recorder.requested(t.client, verb, resource, began, statusError(response.StatusCode, peek(response)))
	}
}

const longestMessage = 500

// peek reads the beginning of an answer and leaves the answer whole.
func peek(response *http.Response) string {
	text, _ := io.ReadAll(response.Body)
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(text))
	return strings.TrimSpace(string(text[:min(len(text), longestMessage)]))
}

// describe tells verb and resource of a request, as the API server counts them.
func describe(request *http.Request) (verb, resource string) {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	path := afterVersion(parts)
	if len(path) >= 2 && path[0] == "namespaces" {
		path = path[2:]
	}
	if len(path) == 0 {
		return "discover", "-"
	}
	return verbOf(request, len(path) > 1), path[0]
}

func afterVersion(parts []string) []string {
	for i, part := range parts {
		if part == "api" && len(parts) > i+2 {
			return parts[i+2:]
		}
		if part == "apis" && len(parts) > i+3 {
			return parts[i+3:]
		}
	}
	return nil
}

func verbOf(request *http.Request, isNamed bool) string {
	switch request.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodDelete:
		return "delete"
	case http.MethodPatch:
		if strings.Contains(request.Header.Get("Content-Type"), "apply-patch") {
			return "apply"
		}
		return "patch"
	}
	return readVerb(request.URL.Query(), isNamed)
}

func readVerb(query url.Values, isNamed bool) string {
	switch {
	case query.Get("watch") == "true" && query.Get("sendInitialEvents") == "true":
		return "watchlist"
	case query.Get("watch") == "true":
		return "watch"
	case isNamed:
		return "get"
	}
	return "list"
}
