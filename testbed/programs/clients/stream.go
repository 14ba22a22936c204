package main

import (
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// stream is one watch of an informer, whose events are looked at on their way.
type stream struct {
	inner  watch.Interface
	of     *watched
	events chan watch.Event
	once   sync.Once
	done   chan struct{}
	opened time.Time
	seen   int
	// isOrdered: in a watchlist the objects come first, in the order of their keys.
	isOrdered bool
	hasFailed bool
}

func (w *watched) follow(inner watch.Interface, isList bool) watch.Interface {
	s := &stream{
		inner: inner, of: w, events: make(chan watch.Event), done: make(chan struct{}),
		opened: time.Now(), isOrdered: !isList,
	}
	go s.run()
	return s
}

func (s *stream) ResultChan() <-chan watch.Event {
	return s.events
}

func (s *stream) Stop() {
	s.once.Do(func() { close(s.done) })
	s.inner.Stop()
}

func (s *stream) run() {
	defer close(s.events)
	for event := range s.inner.ResultChan() {
		if s.isStopped() {
			continue // what comes of stopping is no finding
		}
		s.look(event)
		select {
		case s.events <- event:
		case <-s.done:
		}
	}
	w := s.of
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endedAt = time.Now()
	if !s.hasFailed && !s.isStopped() {
		w.cause = fmt.Sprintf("the watch ended after %d ms with %d events", time.Since(s.opened).Milliseconds(), s.seen)
	}
}

func (s *stream) isStopped() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *stream) look(event watch.Event) {
	w := s.of
	w.mu.Lock()
	defer w.mu.Unlock()
	s.seen++
	if event.Type == watch.Error {
		s.hasFailed = true
		w.cause = "in the stream: " + short(apierrors.FromObject(event.Object))
		return
	}
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return
	}
	at := version(object.GetResourceVersion())
	if event.Type == watch.Bookmark && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
		s.isOrdered = true
	}
	if s.isOrdered && at < w.streamAt {
		w.wentBack = append(w.wentBack, fmt.Sprintf("%s: %s %s at %d after %d", w.name, event.Type, object.GetName(), at, w.streamAt))
	}
	w.streamAt = max(w.streamAt, at)
}

// short is an error as one line that fits into a report.
func short(err error) string {
	text := err.Error()
	if code := codeOf(err); code != 0 {
		text = fmt.Sprintf("%d %s", code, text)
	}
	return text[:min(len(text), 160)]
}

func codeOf(err error) int32 {
	if status, ok := err.(apierrors.APIStatus); ok {
		return status.Status().Code
	}
	return 0
}
