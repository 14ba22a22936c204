package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// sight is what an informer has told its handlers about one object.
type sight struct {
	name       string
	version    uint64
	generation int64
	count      int64
	versions   map[uint64]bool
	isDeleted  bool
}

// olderAgain is a state that was told after a later one.
type olderAgain struct {
	Name         string `json:"name"`
	At           int64  `json:"at"` // ms since the epoch
	Count        int64  `json:"count"`
	After        int64  `json:"after"`
	Version      uint64 `json:"version"`
	AfterVersion uint64 `json:"afterVersion"`
}

// relist is one list after the first.
type relist struct {
	At    int64  `json:"at"`    // ms since the epoch
	How   string `json:"how"`   // list or watchlist
	From  string `json:"from"`  // the resourceVersion asked for
	Cause string `json:"cause"` // how the watch before it ended
	// blindFrom is when the watch before it ended, seenAgain when this list was answered.
	blindFrom, seenAgain time.Time
}

// watched is a shared informer under observation.
type watched struct {
	name     string
	resource resource
	informer cache.SharedIndexInformer

	mu         sync.Mutex
	sights     map[types.UID]*sight
	wentBack   []string
	olderAgain []olderAgain
	revived    int
	falseEnds  []string // objects told to be deleted that nobody has asked to delete
	watches    int
	lists      int
	relists    []relist
	cause      string // how the last list or watch ended
	openedAt   time.Time
	endedAt    time.Time
	streamAt   uint64 // highest resourceVersion of the streams
	isDoomed   func(name string) bool
}

// newWatched makes an informer of the objects of one namespace, or of all for namespace "".
func newWatched(name string, r resource, c *client, in string, l *ledger) *watched {
	w := &watched{name: name, resource: r, sights: map[types.UID]*sight{}, isDoomed: l.isDoomed}
	lw, example, source := listWatchOf(r, c, in)
	w.informer = cache.NewSharedIndexInformerWithOptions(
		cache.ToListWatcherWithWatchListSemantics(w.observe(lw), source),
		example,
		cache.SharedIndexInformerOptions{Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}},
	)
	if _, err := w.informer.AddEventHandler(w.handler()); err != nil {
		panic(err) // it has not been stopped
	}
	return w
}

// listWatchOf uses the typed client for ConfigMaps, as most programs do, and the dynamic one for all else.
func listWatchOf(r resource, c *client, in string) (*cache.ListWatch, runtime.Object, any) {
	if r.kind == "ConfigMap" {
		configMaps := c.typed.CoreV1().ConfigMaps(in)
		return &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return configMaps.List(ctx, o)
			},
			WatchFuncWithContext: configMaps.Watch,
		}, &corev1.ConfigMap{}, c.typed
	}
	objects := c.dynamic.Resource(r.gvr).Namespace(in)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: objects.Watch,
	}, &unstructured.Unstructured{}, c.dynamic
}

// observe tells lists from watches, and why a list was needed.
func (w *watched) observe(lw *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			listed := w.listing("list", o.ResourceVersion)
			found, err := lw.ListWithContextFunc(ctx, o)
			listed(err)
			return found, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			isList := o.SendInitialEvents != nil && *o.SendInitialEvents
			opened := w.watching(o.ResourceVersion)
			if isList {
				opened = w.listing("watchlist", o.ResourceVersion)
			}
			stream, err := lw.WatchFuncWithContext(ctx, o)
			opened(err)
			if err != nil {
				return nil, err
			}
			return w.follow(stream, isList), nil
		},
	}
}

func (w *watched) listing(how, from string) func(error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists++
	found := relist{At: time.Now().UnixMilli(), How: how, From: from, Cause: w.cause, blindFrom: w.endedAt}
	isFirst := w.lists == 1
	return func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		found.seenAgain = time.Now()
		if err != nil {
			w.cause = fmt.Sprintf("%s: %s", how, short(err))
		}
		w.openedAt = time.Now()
		if !isFirst {
			w.relists = append(w.relists, found)
		}
	}
}

func (w *watched) watching(from string) func(error) {
	return func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watches++
		w.openedAt = time.Now()
		if err != nil {
			w.cause = fmt.Sprintf("watch from %s: %s", from, short(err))
		}
	}
}
