package main

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// handler notes what the informer tells, as a controller would be told.
func (w *watched) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.see(object, false) },
		UpdateFunc: func(_, object any) { w.see(object, false) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			w.see(object, true)
		},
	}
}

func (w *watched) see(found any, isDeleted bool) {
	object, err := meta.Accessor(found)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.sights[object.GetUID()]
	if seen == nil {
		seen = &sight{name: object.GetName(), versions: map[uint64]bool{}}
		w.sights[object.GetUID()] = seen
	}
	at := version(object.GetResourceVersion())
	if at < seen.version {
		w.wentBack = append(w.wentBack, fmt.Sprintf("%s: %s at %d after %d", w.name, seen.name, at, seen.version))
	}
	if count := w.countOf(found); !isDeleted && count < seen.count {
		w.olderAgain = append(w.olderAgain, olderAgain{
			Name: seen.name, At: time.Now().UnixMilli(), Count: count, After: seen.count, Version: at, AfterVersion: seen.version,
		})
	}
	if seen.isDeleted && !isDeleted {
		w.revived++
	}
	if isDeleted && !w.isDoomed(seen.name) {
		w.falseEnds = append(w.falseEnds, fmt.Sprintf("%s at %d, %d", seen.name, at, time.Now().UnixMilli()))
	}
	seen.version = max(seen.version, at)
	seen.generation = max(seen.generation, object.GetGeneration())
	seen.count = max(seen.count, w.countOf(found))
	seen.versions[at] = true
	seen.isDeleted = isDeleted
}

// countOf returns what writers only ever count up.
func (w *watched) countOf(found any) int64 {
	switch object := found.(type) {
	case *unstructured.Unstructured:
		return w.resource.get(object, "count")
	case *corev1.ConfigMap:
		count, _ := strconv.ParseInt(object.Data["count"], 10, 64)
		return count
	}
	return 0
}

// verdict compares what an informer has seen with what was acknowledged to writers.
type verdict struct {
	Informer string `json:"informer"`
	Resource string `json:"resource"`
	// Acknowledged writes, by how they were seen: as they were, as a later state of the object, or not at all.
	Acknowledged int      `json:"acknowledged"`
	SeenExactly  int      `json:"seenExactly"`
	SeenLater    int      `json:"seenLater"`
	Missed       []string `json:"missed"`
	// BetweenLists: objects that were made and deleted while there was no watch, before a list: no informer can see them.
	BetweenLists int `json:"betweenLists"`
	// FalseEnds: deletions told of objects that nobody has asked to delete.
	FalseEnds []string `json:"falseEnds"`
	WentBack  []string `json:"wentBack"`
	// OlderAgain: states told again after later ones, under higher resourceVersions: a move writes them to the other
	// shard once more, and a watch that is resumed sees that.
	OlderAgain []olderAgain `json:"olderAgain"`
	// Revived: objects told to be there after they were told to be deleted, to be deleted once more.
	Revived int `json:"revived"`
	// StoreDiffers: keys whose cached object is not what a fresh list has.
	StoreDiffers []string `json:"storeDiffers"`
	Lists        int      `json:"lists"`
	Watches      int      `json:"watches"`
	Relists      []relist `json:"relists"`
}

func (w *watched) verdict(l *ledger) verdict {
	writes, lives, _ := l.snapshot()
	w.mu.Lock()
	defer w.mu.Unlock()
	v := verdict{
		Informer: w.name, Resource: w.resource.name, Lists: w.lists, Watches: w.watches,
		Missed: []string{}, StoreDiffers: []string{}, FalseEnds: append([]string{}, w.falseEnds...),
		WentBack: append([]string{}, w.wentBack...), OlderAgain: append([]olderAgain{}, w.olderAgain...),
		Revived: w.revived, Relists: append([]relist{}, w.relists...),
	}
	for _, write := range writes {
		w.judge(&v, write, lives[write.uid])
	}
	for uid, life := range lives {
		seen := w.sights[uid]
		if !life.died.IsZero() && seen != nil && !seen.isDeleted {
			v.Missed = append(v.Missed, fmt.Sprintf("%s: its deletion", seen.name))
		}
	}
	return v
}

func (w *watched) judge(v *verdict, write write, life life) {
	v.Acknowledged++
	seen := w.sights[write.uid]
	switch {
	case seen == nil && w.isBetweenLists(life):
		v.BetweenLists++
	case seen == nil:
		v.Missed = append(v.Missed, fmt.Sprintf("%s: never seen (%s)", write.name, write.by))
	case seen.versions[write.version]:
		v.SeenExactly++
	case seen.isDeleted || seen.version > write.version && seen.generation >= write.generation:
		v.SeenLater++
	default:
		v.Missed = append(v.Missed, fmt.Sprintf("%s: %d by %s, seen %d", write.name, write.version, write.by, seen.version))
	}
}

// between is what an event may need from the server to the handler, on a busy machine.
const between = 5 * time.Second

func (w *watched) isBetweenLists(life life) bool {
	for _, list := range w.relists {
		if !life.died.IsZero() && life.born.After(list.blindFrom.Add(-between)) && life.doomed.Before(list.seenAgain) {
			return true
		}
	}
	return false
}

// compareStore looks for differences between the informer's cache and a fresh list of the same collection.
func (w *watched) compareStore(fresh map[types.UID]string) []string {
	differs := []string{}
	cached := map[types.UID]bool{}
	for _, object := range w.informer.GetStore().List() {
		found := object.(metav1.Object)
		cached[found.GetUID()] = true
		if fresh[found.GetUID()] != found.GetResourceVersion() {
			differs = append(differs, fmt.Sprintf("%s: %s cached, %s listed", found.GetName(), found.GetResourceVersion(), strconv.Quote(fresh[found.GetUID()])))
		}
	}
	for uid := range fresh {
		if !cached[uid] {
			differs = append(differs, fmt.Sprintf("%s: listed, not cached", uid))
		}
	}
	return differs
}
