package main

import (
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// moment is a point in time that failures are told relative to, e.g. when a fence took effect.
type moment struct {
	Name string `json:"name"`
	At   int64  `json:"at"` // ms since the epoch
}

// failure is a request that did not succeed although the client has tried as often as client-go does.
type failure struct {
	Client   string `json:"client"`
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	Status   int    `json:"status"` // 0: no answer
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	BeganAt  int64  `json:"beganAt"` // ms since the epoch
	EndedAt  int64  `json:"endedAt"`
	Nearest  string `json:"nearest,omitempty"`  // name of the moment that the end is nearest to
	OffsetMs int64  `json:"offsetMs,omitempty"` // from that moment to the end
}

// gap is the longest time between two answers that were successes.
type gap struct {
	Ms int64 `json:"ms"`
	At int64 `json:"at"` // its end, ms since the epoch
}

// counts are what one kind of client has done in one chapter.
type counts struct {
	// Requests that the client made, each with all its repetitions.
	Requests int `json:"requests"`
	// Attempts by verb and HTTP status, as they were on the wire; "error" where there was no answer.
	Attempts map[string]map[string]int `json:"attempts"`
	// Conflicts: updates that were built on an older resourceVersion, which clients answer by reading again.
	Conflicts map[string]int `json:"conflicts"`
	// Gaps by verb.
	Gaps     map[string]gap `json:"gaps"`
	Failures []failure      `json:"failures"`
}

type chapter struct {
	Name    string             `json:"name"`
	BeganAt int64              `json:"beganAt"`
	Clients map[string]*counts `json:"clients"`
}

// recorder keeps what happens to requests.
type recorder struct {
	mu        sync.Mutex
	chapters  []*chapter
	moments   []moment
	lastSeen  map[string]time.Time // end of the last success by client and verb
	served    map[string]bool      // clients that have had a success
	isStopped bool
}

func newRecorder() *recorder {
	r := &recorder{lastSeen: map[string]time.Time{}, served: map[string]bool{}}
	r.begin("before")
	return r
}

func (r *recorder) begin(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chapters = append(r.chapters, &chapter{Name: name, BeganAt: time.Now().UnixMilli(), Clients: map[string]*counts{}})
}

func (r *recorder) addMoment(m moment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moments = append(r.moments, m)
}

// stop ends the counting: what fails from now on fails because the program ends.
func (r *recorder) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isStopped = true
}

// of returns the counts of a client in the chapter of now. The lock is held.
func (r *recorder) of(client string) *counts {
	current := r.chapters[len(r.chapters)-1].Clients
	if current[client] == nil {
		current[client] = &counts{
			Attempts:  map[string]map[string]int{},
			Conflicts: map[string]int{},
			Gaps:      map[string]gap{},
			Failures:  []failure{},
		}
	}
	return current[client]
}

func (r *recorder) attempted(client, verb, status string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isStopped {
		return
	}
	attempts := r.of(client).Attempts
	if attempts[verb] == nil {
		attempts[verb] = map[string]int{}
	}
	attempts[verb][status]++
}

// requested takes the outcome of one request with all its repetitions.
func (r *recorder) requested(client, verb, resource string, began time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isStopped {
		return
	}
	now := time.Now()
	of := r.of(client)
	of.Requests++
	switch {
	case err == nil:
		r.served[client] = true
		key := client + " " + verb
		if last, ok := r.lastSeen[key]; ok && now.Sub(last).Milliseconds() > of.Gaps[verb].Ms {
			of.Gaps[verb] = gap{Ms: now.Sub(last).Milliseconds(), At: now.UnixMilli()}
		}
		r.lastSeen[key] = now
	case apierrors.IsConflict(err):
		of.Conflicts[resource]++
	default:
		of.Failures = append(of.Failures, failureOf(client, verb, resource, began, now, err))
	}
}

// gaveUp takes a request that a client has given up after conflicts.
func (r *recorder) gaveUp(client, verb, resource string, began time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isStopped {
		return
	}
	of := r.of(client)
	of.Failures = append(of.Failures, failureOf(client, verb, resource, began, time.Now(), err))
}

func failureOf(client, verb, resource string, began, ended time.Time, err error) failure {
	found := failure{
		Client: client, Verb: verb, Resource: resource, Message: err.Error(),
		BeganAt: began.UnixMilli(), EndedAt: ended.UnixMilli(),
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		found.Status = int(status.Status().Code)
		found.Reason = string(status.Status().Reason)
	}
	return found
}

// story returns all chapters, every failure with its offset from the nearest moment.
func (r *recorder) story() []*chapter {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, chapter := range r.chapters {
		for _, of := range chapter.Clients {
			for i := range of.Failures {
				r.place(&of.Failures[i])
			}
		}
	}
	return r.chapters
}

func (r *recorder) place(f *failure) {
	for _, m := range r.moments {
		offset := f.EndedAt - m.At
		if f.Nearest == "" || abs(offset) < abs(f.OffsetMs) {
			f.Nearest, f.OffsetMs = m.Name, offset
		}
	}
}

func abs(n int64) int64 {
	return max(n, -n)
}

// statusError makes an error of an answer that nobody else turns into one.
func statusError(code int, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Message: message}}
}
