// Fitted constants of the in-domain form, by box: data only.
//
// alpha in us, B as busbw in GB/s, gamma in us per sqrt(MB). Fits of nccl-tests times in
// validation/data/calibration/collectives.csv (512 B to 512 MB); validation/components checks that they still are.
// NVL72 trays were measured with up to 4 devices: the rows for 8 are those of the 8-device box of the same NVLink
// generation, the rows for 72 are from one rack (all-reduce, 0.5 to 8 GB) and one all-to-all asymptote.
#pragma once

#include "topology/collective_fits.h"

namespace stepcast::topology::tables {

constexpr InDomainFit a100_box[] = {
    {Collective::all_reduce, 2, 9.7, 222, 11.81},     {Collective::all_reduce, 4, 13.7, 231, 11.14},
    {Collective::all_reduce, 8, 21.1, 234, 11.78},    {Collective::all_gather, 2, 8.9, 173, 8.73},
    {Collective::all_gather, 4, 10.6, 224, 11.38},    {Collective::all_gather, 8, 14.7, 218, 8.42},
    {Collective::reduce_scatter, 2, 8.9, 198, 7.80},  {Collective::reduce_scatter, 4, 10.6, 232, 9.39},
    {Collective::reduce_scatter, 8, 14.4, 230, 8.44}, {Collective::all_to_all, 2, 10.7, 196, 8.41},
    {Collective::all_to_all, 4, 12.1, 213, 7.38},     {Collective::all_to_all, 8, 12.5, 224, 8.77},
};
constexpr InDomainFit h100_box[] = {
    {Collective::all_reduce, 2, 5.9, 334, 5.58},      {Collective::all_reduce, 4, 9.3, 368, 5.37},
    {Collective::all_reduce, 8, 15.3, 504, 9.95},     {Collective::all_gather, 2, 5.1, 288, 4.93},
    {Collective::all_gather, 4, 7.0, 349, 5.21},      {Collective::all_gather, 8, 10.4, 369, 5.10},
    {Collective::reduce_scatter, 2, 5.2, 256, 3.71},  {Collective::reduce_scatter, 4, 7.0, 329, 3.80},
    {Collective::reduce_scatter, 8, 10.3, 348, 2.82}, {Collective::all_to_all, 2, 6.6, 334, 4.60},
    {Collective::all_to_all, 4, 7.1, 336, 5.17},      {Collective::all_to_all, 8, 7.6, 343, 4.84},
};
constexpr InDomainFit h200_box[] = {
    {Collective::all_reduce, 2, 6.0, 333, 4.92},      {Collective::all_reduce, 4, 9.5, 366, 4.85},
    {Collective::all_reduce, 8, 15.9, 528, 10.32},    {Collective::all_gather, 2, 5.0, 287, 4.60},
    {Collective::all_gather, 4, 7.1, 348, 4.67},      {Collective::all_gather, 8, 11.9, 362, 4.00},
    {Collective::reduce_scatter, 2, 5.1, 259, 3.46},  {Collective::reduce_scatter, 4, 7.1, 325, 2.99},
    {Collective::reduce_scatter, 8, 10.8, 357, 3.23}, {Collective::all_to_all, 2, 6.8, 347, 4.42},
    {Collective::all_to_all, 4, 6.9, 358, 4.86},      {Collective::all_to_all, 8, 8.2, 337, 4.37},
};
constexpr InDomainFit b200_box[] = {
    {Collective::all_reduce, 2, 10.1, 591, 3.25},     {Collective::all_reduce, 4, 15.1, 710, 4.74},
    {Collective::all_reduce, 8, 24.9, 833, 8.80},     {Collective::all_gather, 2, 8.9, 526, 3.11},
    {Collective::all_gather, 4, 11.2, 690, 3.94},     {Collective::all_gather, 8, 16.9, 726, 3.91},
    {Collective::reduce_scatter, 2, 8.9, 462, 2.53},  {Collective::reduce_scatter, 4, 11.4, 651, 3.48},
    {Collective::reduce_scatter, 8, 16.3, 701, 3.33}, {Collective::all_to_all, 2, 9.5, 402, 4.24},
    {Collective::all_to_all, 4, 10.3, 598, 4.24},     {Collective::all_to_all, 8, 11.6, 690, 5.12},
};
constexpr InDomainFit b300_box[] = {
    {Collective::all_reduce, 2, 9.8, 605, 3.43},      {Collective::all_reduce, 4, 14.5, 706, 4.18},
    {Collective::all_reduce, 8, 24.5, 829, 8.49},     {Collective::all_gather, 2, 8.0, 554, 3.53},
    {Collective::all_gather, 4, 10.8, 712, 4.18},     {Collective::all_gather, 8, 16.0, 739, 4.20},
    {Collective::reduce_scatter, 2, 8.3, 477, 2.82},  {Collective::reduce_scatter, 4, 10.7, 651, 3.37},
    {Collective::reduce_scatter, 8, 16.1, 699, 3.10}, {Collective::all_to_all, 2, 9.1, 394, 3.37},
    {Collective::all_to_all, 4, 10.3, 612, 4.01},     {Collective::all_to_all, 8, 11.3, 673, 3.90},
};
constexpr InDomainFit gb200_box[] = {
    {Collective::all_reduce, 2, 10.8, 581, 2.95},     {Collective::all_reduce, 4, 15.7, 710, 4.97},
    {Collective::all_gather, 2, 9.5, 513, 2.83},      {Collective::all_gather, 4, 11.8, 668, 3.52},
    {Collective::reduce_scatter, 2, 9.4, 452, 2.29},  {Collective::reduce_scatter, 4, 11.8, 625, 2.94},
    {Collective::all_to_all, 2, 10.1, 396, 4.02},     {Collective::all_to_all, 4, 10.9, 574, 3.57},
    {Collective::all_reduce, 8, 24.9, 833, 8.80},     {Collective::all_gather, 8, 16.9, 726, 3.91},
    {Collective::reduce_scatter, 8, 16.3, 701, 3.33}, {Collective::all_to_all, 8, 11.6, 690, 5.12},
    {Collective::all_reduce, 72, 182.0, 932, 21.00},  {Collective::all_to_all, 72, 34.0, 667, 5.00},
};
constexpr InDomainFit gb300_box[] = {
    {Collective::all_reduce, 2, 9.5, 619, 3.84},      {Collective::all_reduce, 4, 15.2, 691, 3.57},
    {Collective::all_gather, 2, 8.3, 555, 3.41},      {Collective::all_gather, 4, 11.2, 683, 3.61},
    {Collective::reduce_scatter, 2, 8.4, 478, 2.77},  {Collective::reduce_scatter, 4, 11.3, 633, 2.93},
    {Collective::all_to_all, 2, 10.3, 402, 3.22},     {Collective::all_to_all, 4, 10.6, 608, 3.66},
    {Collective::all_reduce, 8, 24.5, 829, 8.49},     {Collective::all_gather, 8, 16.0, 739, 4.20},
    {Collective::reduce_scatter, 8, 16.1, 699, 3.10}, {Collective::all_to_all, 8, 11.3, 673, 3.90},
    {Collective::all_reduce, 72, 182.0, 932, 21.00},  {Collective::all_to_all, 72, 34.0, 667, 5.00},
};
// Infinity Fabric mesh: each pair has one link of 64 GB/s, so a small group sees only the links inside it.
constexpr InDomainFit mi300x_box[] = {
    {Collective::all_reduce, 2, 12.0, 45, 8.00},      {Collective::all_reduce, 4, 13.0, 135, 8.00},
    {Collective::all_reduce, 8, 13.8, 326, 7.99},     {Collective::all_gather, 2, 12.0, 45, 8.00},
    {Collective::all_gather, 4, 13.0, 135, 8.00},     {Collective::all_gather, 8, 13.8, 320, 8.00},
    {Collective::reduce_scatter, 2, 12.0, 45, 8.00},  {Collective::reduce_scatter, 4, 13.0, 135, 8.00},
    {Collective::reduce_scatter, 8, 13.8, 320, 8.00}, {Collective::all_to_all, 2, 12.0, 45, 4.00},
    {Collective::all_to_all, 4, 20.0, 135, 4.00},     {Collective::all_to_all, 8, 30.5, 315, 0.00},
};

}  // namespace stepcast::topology::tables
